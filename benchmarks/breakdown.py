"""
What the breakdown costs: taking stage times in, and reading an hour of them.

    python benchmarks/breakdown.py [--groups 50] [--commits 600]

Commits of 512 requests with nine measures each, spread over an hour and over so
many models; CPU time in this process. *Taking in* is a mean, folding included;
*reading* is the median of twenty.
"""

import argparse
import time
from dataclasses import replace
from statistics import median

import numpy as np
from rows import Row, table

from slo_exporter.insight.breakdown import breakdown
from slo_exporter.insight.figures import Dimension, Question
from slo_exporter.insight.stages import StageBook
from slo_exporter.sli.records import NO_STAGE_TIMES, RequestBatch
from slo_exporter.sli.texts import Texts, missing_texts, texts_of

ROWS = 512
HOUR_S = 3600
SECOND_NS = 10**9
STAGES = {"queue": 0.02, "preprocess": 0.003, "prefill": 0.15, "decode": 2.2, "postprocess": 0.002}


def commit(age_ns: int, groups: int, now_ns: int, random: np.random.Generator) -> RequestBatch:
    """Requests that ended so long ago."""
    ended = np.full(ROWS, now_ns - age_ns, dtype=np.int64)
    scale = random.lognormal(0, 0.6, ROWS)
    stages = {name: (seconds * scale * SECOND_NS).astype(np.int64) for name, seconds in STAGES.items()}
    e2e = np.sum(list(stages.values()), axis=0)
    ids, no = np.arange(ROWS, dtype=np.uint64), np.zeros(ROWS, dtype=np.uint8)
    return RequestBatch(
        start_ns=ended - e2e,
        end_ns=ended,
        trace_id=np.ones((ROWS, 2), dtype=np.uint64),
        span_id=ids,
        fingerprint=ids,
        request_key=ids,
        view=no,
        outcome=no,
        layer=no,
        pair_key=ids,
        shadowed=np.zeros(ROWS, dtype=np.bool_),
        service=texts_of(["chat"] * ROWS),
        model=Texts(tuple(f"model-{model}" for model in range(groups)), random.integers(0, groups, ROWS, np.int32)),
        framework=missing_texts(ROWS),
        fields={
            **stages,
            "e2e": e2e,
            "ttft": stages["queue"] + stages["prefill"],
            "inference": stages["prefill"] + stages["decode"],
            "inter_token": stages["decode"] // 128,
            "prompt_tokens": random.integers(1, 40_000, ROWS, np.int64),
            "completion_tokens": random.integers(1, 2_000, ROWS, np.int64),
        },
    )


def reading_ms(book: StageBook, question: Question, now_ns: int) -> float:
    """CPU time of one answer, the median."""
    found = []
    for _ in range(20):
        before = time.process_time()
        breakdown(book.read(question.service, question.window_s, now_ns), question)
        found.append(time.process_time() - before)
    return 1e3 * median(found)


def measure(groups: int = 50, commits: int = 600) -> list[Row]:
    """Take an hour in, then read it."""
    random, now_ns = np.random.default_rng(0), time.time_ns()
    book, took = StageBook(now_ns - HOUR_S * SECOND_NS), 0.0
    for left in range(commits, 0, -1):
        requests = commit(HOUR_S * SECOND_NS * left // commits, groups, now_ns, random)
        before = time.process_time()
        book.add(requests, NO_STAGE_TIMES)
        took += time.process_time() - before
    headline = Question(service="chat", window_s=HOUR_S)
    grouped = replace(headline, by=(Dimension.MODEL,))
    found = (
        ("taking in, a request", 1e6 * took / commits / ROWS, "µs of CPU"),
        ("reading an hour, headline", reading_ms(book, headline, now_ns), "ms of CPU"),
        (f"reading an hour, {groups} models", reading_ms(book, grouped, now_ns), "ms of CPU"),
        ("the book", book.nbytes / 2**20, "MiB"),
    )
    about = {"requests": commits * ROWS}
    return [Row(bench="breakdown", name=name, value=value, unit=unit, parameters=about) for name, value, unit in found]


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--groups", type=int, default=50)
    arguments.add_argument("--commits", type=int, default=600)
    asked = arguments.parse_args()
    print(table(measure(asked.groups, asked.commits)))
