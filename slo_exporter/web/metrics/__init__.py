"""
/metrics: the Prometheus text format, version 0.0.4.

| reads | `Scrape`: reports, totals, readings and request metrics of one instant |
| gives | text |
| state | `RequestMetrics`: counters of the requests since the start |

prometheus_client is used here and nowhere else.
"""
