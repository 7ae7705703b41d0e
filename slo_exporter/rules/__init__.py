"""Generators: Prometheus rules and Grafana dashboards."""
