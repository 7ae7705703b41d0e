"""
/metrics: OpenMetrics 1.0 or the Prometheus text format 0.0.4, whichever is asked for.

| reads | `Scrape`: reports, totals, readings and request metrics of one instant |
| gives | bytes of one format |
| state | `RequestMetrics`: counters of the requests since the start |

negotiation picks the format; catalogue names every metric, one part of it a
file; series gives its numbers, requests and exemplars those of requests;
exposition writes them out.
"""
