"""Alerts on the exporter's own health."""

from inspect import cleandoc
from typing import Final

from slo_exporter.rules.model import Alert, Group, RuleFile
from slo_exporter.slo.alerting import Severity

PAGE: Final = Severity.PAGE
TICKET: Final = Severity.TICKET

_ALERTS: Final = (
    Alert(
        name="SloExporterDown",
        expr='up{job="slo-exporter"} == 0 or absent(up{job="slo-exporter"})',
        hold="2m",
        severity=PAGE,
        summary="slo-exporter does not answer Prometheus.",
        description="Clients keep what they cannot deliver for seconds, a Collector for minutes; then requests "
        "are missing in every budget.",
    ),
    Alert(
        name="SloExporterGpusDown",
        comment="The processes on GPU nodes, where they have a job of their own. None at all is no fault.",
        expr='up{job="slo-exporter-gpus"} == 0',
        hold="5m",
        severity=TICKET,
        summary="slo-exporter on {{ if $labels.node }}{{ $labels.node }}{{ else }}{{ $labels.instance }}{{ end }} "
        "does not answer Prometheus.",
        description="Nobody reads the GPUs there: their alerts are silent. Budgets of requests go on.",
    ),
    Alert(
        name="SloExporterNotReady",
        expr="slo_exporter_ready == 0",
        hold="2m",
        severity=PAGE,
        summary="slo-exporter {{ $labels.instance }} refuses every export.",
        description="It runs, but its database takes no commits. /readyz says why.",
    ),
    Alert(
        name="SloExporterNotCommitting",
        expr="time() - slo_exporter_last_commit_timestamp_seconds > 60 and slo_exporter_ready == 1",
        hold="2m",
        severity=PAGE,
        summary="slo-exporter {{ $labels.instance }} committed last {{ $value | humanizeDuration }} ago.",
        description="There is a commit every 5 seconds, with or without traffic. It says that it is ready, so a "
        "transaction hangs, or the clocks of the two machines differ.",
    ),
    Alert(
        name="SloExporterRefusesExports",
        expr=cleandoc(
            """
            sum without (protocol) (rate(slo_exporter_exports_refused_total[5m]))
              / ignoring (reason) group_left ()
            sum without (protocol, result) (rate(slo_exporter_exports_total[5m]))
              > 0.1
            """
        ),
        hold="10m",
        severity=PAGE,
        summary="slo-exporter {{ $labels.instance }} refuses {{ $value | humanizePercentage }} of all exports "
        "({{ $labels.reason }}).",
        description="Clients send them again, but not for ever; what they give up is missing in every budget.",
    ),
    Alert(
        name="SloExporterDropsExports",
        expr=cleandoc(
            """
            sum without (protocol) (
              rate(slo_exporter_exports_total{result=~"malformed|too_large|unsupported|timeout"}[5m])
            )
              / ignoring (result) group_left ()
            sum without (protocol, result) (rate(slo_exporter_exports_total[5m]))
              > 0.01
            """
        ),
        hold="15m",
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} cannot read {{ $value | humanizePercentage }} of all "
        "exports ({{ $labels.result }}).",
        description="Their clients drop them. One of them is set up wrong, or sends too much at once.",
    ),
    Alert(
        name="SloExporterFails",
        comment="A series that begins with its first count has no increase yet: the second half sees it.",
        expr=cleandoc(
            """
            sum without (protocol) (increase(slo_exporter_exports_total{result="failed"}[15m])) > 0
              or
            sum without (protocol) (
              slo_exporter_exports_total{result="failed"} unless slo_exporter_exports_total{result="failed"} offset 15m
            ) > 0
            """
        ),
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} failed on an export.",
        description="This is a fault of slo-exporter, and the spans of that export are lost. Its log holds the trace.",
    ),
    Alert(
        name="SloExporterCommitsFail",
        expr=cleandoc(
            """
            rate(slo_exporter_commits_total{result!="ok"}[10m])
              / ignoring (result) group_left ()
            sum without (result) (rate(slo_exporter_commits_total[10m]))
              > 0.05
            """
        ),
        hold="5m",
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} fails in {{ $value | humanizePercentage }} of its "
        "transactions ({{ $labels.result }}).",
        description="The database is slow, full or away time and again. Nothing is lost while clients still send "
        "again.",
    ),
    Alert(
        name="SloExporterRefusesSpans",
        expr=cleandoc(
            """
            rate(slo_exporter_spans_refused_total[10m])
              / ignoring (reason) group_left ()
            sum without (reason, result) (
              rate(slo_exporter_spans_refused_total[10m]) or rate(slo_exporter_spans_total[10m])
            )
              > 0.01
            """
        ),
        hold="15m",
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} refuses {{ $value | humanizePercentage }} of all spans "
        "({{ $labels.reason }}).",
        description="They are missing in every budget. Late spans, wrong clocks and broken ids have different cures.",
    ),
    Alert(
        name="SloExporterLosesSliceRecords",
        expr=cleandoc(
            """
            rate(slo_exporter_late_slice_records_total[10m])
              /
            sum without (result) (rate(slo_exporter_spans_total{result="request"}[10m]))
              > 0.01
            """
        ),
        hold="15m",
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} gets {{ $value | humanizePercentage }} of all requests "
        "after their time slice was final.",
        description="They are missing in the budgets of time-slice SLOs; event SLOs have them.",
    ),
    Alert(
        name="SloExporterQueueNearlyFull",
        expr="avg_over_time(slo_exporter_inflight_bytes[5m]) / slo_exporter_inflight_limit_bytes > 0.8",
        hold="5m",
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} holds {{ $value | humanizePercentage }} of the "
        "unanswered exports that it may.",
        description="At the limit exports are refused as overloaded. More comes in than is committed.",
    ),
    Alert(
        name="SloExporterWriterBusy",
        expr="rate(slo_exporter_commit_seconds_total[5m]) > 0.8",
        hold="10m",
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} spends {{ $value | humanizePercentage }} of its time in "
        "transactions.",
        description="One writer commits everything. Beyond all of its time exports wait, then they are refused.",
    ),
    Alert(
        name="SloExporterLabelsOverflow",
        expr="increase(slo_exporter_label_overflow_total[15m]) > 0",
        hold="5m",
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} has no room for more services and models.",
        description="Further ones share the series _other of the inference metrics. Budgets are not affected.",
    ),
    Alert(
        name="SloExporterEnginesUnlearnt",
        expr="increase(slo_exporter_unlearnt_engines_total[15m]) > 0",
        hold="5m",
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} has no room to remember more services with an engine.",
        description="In those services a request counts twice, by the span of the engine and by that of the HTTP "
        "server.",
    ),
    Alert(
        name="SloExporterForgetsTooSoon",
        comment="600 s is the default of `lateness`: write yours. After a start the memory is as young\n"
        "as the process and not yet a fault, hence the long `for`; 0 is a server without traffic.",
        expr="min_over_time(slo_exporter_seen_reach_seconds[15m]) < 600 and slo_exporter_seen_reach_seconds > 0",
        hold="30m",
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} recognises repeated {{ $labels.memory }} for {{ $value | "
        "humanizeDuration }} only.",
        description="A span may come in until it is 10 minutes old. One that comes twice within that time may "
        "count twice.",
    ),
    Alert(
        name="SloExporterRestarts",
        expr='resets(slo_exporter_commits_total{result="ok"}[30m]) >= 3',
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} started {{ $value }} times within 30 minutes.",
        description="Counts survive that. Every start costs coverage, and the memory of spans seen begins anew.",
    ),
    Alert(
        name="SloExporterKeepsOldSlos",
        comment="A series that begins with its first count has no increase yet: the second half sees it.",
        expr=cleandoc(
            """
            increase(slo_exporter_reloads_total{result!="ok"}[1h]) > 0
              or
            (slo_exporter_reloads_total{result!="ok"} unless slo_exporter_reloads_total{result!="ok"} offset 1h) > 0
            """
        ),
        severity=TICKET,
        summary="slo-exporter {{ $labels.instance }} did not take the SLO files that it was told to read "
        "again ({{ $labels.result }}).",
        description="It goes on with the SLOs that it had. With the files as they are it may not start again.",
    ),
)

HEALTH: Final = RuleFile(
    comment=cleandoc(
        """
        Alerts on the exporter's own health. What the SLOs say is not in here.

        severity: page    counts are being lost, or will be within minutes: somebody has to look now
                  ticket  counts are doubtful, or will be: somebody has to look in working hours

        Only SloExporterDown and SloExporterGpusDown need to know the names of jobs, slo-exporter and
        slo-exporter-gpus; the others go by the names of the metrics.
        A server that nobody sends spans to fires nothing: it commits a heartbeat every 5 seconds.
        Labels that a scrape adds (job, instance, namespace, ...) are kept on every alert.
        """
    ),
    groups=(Group(name="slo-exporter", rules=_ALERTS),),
)
