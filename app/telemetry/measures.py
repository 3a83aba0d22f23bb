"""All that one process measures. An API and a worker have the same families; each records what it does."""

from app.telemetry.families import Counter, Family, Gauge, Histogram

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)

MAX_MODELS = 200
"""Models with series of their own in one process; further ones are summed under `other`."""
UNMATCHED = "unmatched"
"""Route of requests to addresses where there is nothing."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Measures:
    """The measures of one process, each under the name that Prometheus shows."""

    def __init__(self) -> None:
        self.requests = Counter(
            "pursuit_http_requests", "Requests by method, route template and status.", ("method", "route", "status")
        )
        self.request_seconds = Histogram(
            "pursuit_http_request_seconds",
            "Seconds from the request's head to the end of its answer.",
            ("route",),
            bounds=SECONDS,
        )
        self.rows = Counter("pursuit_predicted_rows", "Rows predicted.", ("model",), max_series=MAX_MODELS)
        self.rows_with_support = Counter(
            "pursuit_predicted_rows_with_support",
            "Rows predicted with a variance that is compared with the prior's.",
            ("model",),
            max_series=MAX_MODELS,
        )
        self.rows_near_prior = Counter(
            "pursuit_predicted_rows_near_prior",
            "Rows predicted with nearly the prior's variance: far from all training rows.",
            ("model",),
            max_series=MAX_MODELS,
        )
        self.batch_requests = Histogram(
            "pursuit_prediction_batch_requests", "Requests that one call predicts.", bounds=SIZES
        )
        self.batch_rows = Histogram("pursuit_prediction_batch_rows", "Rows that one call predicts.", bounds=SIZES)
        self.cache_lookups = Counter(
            "pursuit_model_cache_lookups", "Models asked for, by whether they were in memory.", ("result",)
        )
        self.models_loaded = Gauge("pursuit_models_loaded", "Models in memory.")
        self.models_bytes = Gauge("pursuit_models_loaded_bytes", "Bytes of the models in memory.")
        self.job_phase_seconds = Counter(
            "pursuit_job_phase_seconds", "Seconds of jobs by phase, of tries that failed too.", ("phase",)
        )
        self.job_tries = Counter(
            "pursuit_job_tries",
            "Tries of jobs by how they ended: a job's end, or why it went back to the queue.",
            ("end",),
        )
        self.worker_faults = Counter(
            "pursuit_worker_faults", "Times that many jobs in a row died at once and their worker paused."
        )
        self.families: tuple[Family, ...] = tuple(v for v in vars(self).values() if isinstance(v, Family))
        self._requests = (self.requests, self.request_seconds)
        self._hit, self._miss = ("hit",), ("miss",)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request. route: its template, such as `/jobs/{job_id}`."""
        self.requests.add((method if method in _METHODS else "other", route, str(status)))
        self.request_seconds.observe(seconds, (route,))

    def cache_hit(self) -> None:
        """Count a model that was in memory."""
        self.cache_lookups.add(self._hit)

    def cache_miss(self) -> None:
        """Count a model that had to be loaded."""
        self.cache_lookups.add(self._miss)

    def predicted(self, model: str, rows: int, near_prior: int | None) -> None:
        """Count predicted rows, and those far from all training rows; None where that is not known."""
        labels = (model,)
        self.rows.add(labels, rows)
        if near_prior is not None:
            self.rows_with_support.add(labels, rows)
            if near_prior:
                self.rows_near_prior.add(labels, near_prior)
