"""
Grafana dashboards, made by code: ``python -m slo_exporter.rules.dashboards dashboards``.

Rules of this package:

1. A number of now is an instant query: a series that ended shows no number.
2. What is absent stays absent: no ``or vector(0)``, no default. A panel without data says so.
3. Gauges of SLOs are read ``max without (instance, pod)``: replicas are one, all other labels stay.
4. Every panel has one sentence that says how to read it, a unit, and words where a colour says something.
"""
