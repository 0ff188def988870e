"""Whether a model is right as often as it says: reliability, calibration error, and the temperature that mends it.

Everywhere targets decide what the logits (N, C) are: (N,) numbers of classes, of which one is right (softmax), or
(N, C) yes or no, each class by itself (sigmoid).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forebear.errors import BadInput

BINS = 10
COLDEST, HOTTEST = 0.05, 20.0  # what is all right, or all wrong, has no best temperature
FEW = 50  # cases that say nothing about how sure a model may be
COLD, HOT = 0.2, 5.0  # temperatures beyond these are an accident of the cases
CLOSE_ENOUGH, MOST_STEPS = 1e-9, 200


def of_logits(logits: np.ndarray, targets: np.ndarray, temperature: float = 1.0) -> dict[str, Any]:
    """What is known of a model's confidence: calibration error, log-loss in nats, Brier's score, and the bins.

    With softmax an answer's confidence is that of its best class; with sigmoid each class of each case counts.
    """
    logits, targets = _checked(logits, targets)
    probable = probabilities(logits, sigmoid=targets.ndim == 2, temperature=temperature)
    if targets.ndim == 2:
        confidence, right = probable.ravel(), targets.ravel()
    else:
        confidence, right = probable.max(1), probable.argmax(1) == targets
    bins = reliability(confidence, right)
    return {
        "calibration_error": calibration_error(bins),
        "log_loss": log_loss(logits, targets, temperature),
        "brier": brier(probable, targets),
        "temperature": float(temperature),
        "bins": bins,
    }


def reliability(confidence: np.ndarray, right: np.ndarray, bins: int = BINS) -> list[dict[str, Any]]:
    """Answers by confidence, in bins of equal width, upper ends included: how sure, and how often right, on average."""
    confidence, right = np.asarray(confidence, np.float64), np.asarray(right, np.float64)
    edges = np.arange(1, bins) / bins
    which = np.searchsorted(edges, confidence, side="left")
    count = np.bincount(which, minlength=bins)
    some = np.maximum(count, 1)
    sure = np.bincount(which, confidence, minlength=bins) / some
    often = np.bincount(which, right, minlength=bins) / some
    return [
        {"from": place / bins, "to": (place + 1) / bins, "count": int(count[place])}
        | ({"confidence": float(sure[place]), "accuracy": float(often[place])} if count[place] else {})
        for place in range(bins)
    ]


def calibration_error(bins: list[dict[str, Any]]) -> float:
    """The distance between confidence and accuracy, over all answers (expected calibration error)."""
    total = sum(one["count"] for one in bins)
    return sum(one["count"] * abs(one["confidence"] - one["accuracy"]) for one in bins if one["count"]) / max(total, 1)


def log_loss(logits: np.ndarray, targets: np.ndarray, temperature: float = 1.0) -> float:
    """−ln of the probability of what is true: a mean over cases, with sigmoid over every class of every case."""
    logits, targets = _checked(logits, targets)
    scaled = logits / temperature
    if targets.ndim == 2:
        return float(np.mean(np.logaddexp(0.0, np.where(targets, -scaled, scaled))))
    scaled = scaled - scaled.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(scaled).sum(1)) - scaled[np.arange(len(targets)), targets]))


def brier(probable: np.ndarray, targets: np.ndarray) -> float:
    """The squared distance of probabilities to the truth: summed over classes (softmax), or a mean of all (sigmoid)."""
    targets = np.asarray(targets)
    if targets.ndim == 2:
        return float(np.mean((probable - targets) ** 2))
    meant = np.asarray(probable)[np.arange(len(targets)), targets]
    return float(np.mean((np.square(probable)).sum(1) - 2 * meant + 1))


def probabilities(logits: np.ndarray, *, sigmoid: bool = False, temperature: float = 1.0) -> np.ndarray:
    scaled = np.asarray(logits, np.float64) / temperature
    if sigmoid:
        return _sigmoid(scaled)
    powers = np.exp(scaled - scaled.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def trusted_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """The best temperature, as far as these cases can be trusted; 1 where they are too few."""
    return 1.0 if len(targets) < FEW else min(max(temperature(logits, targets), COLD), HOT)


def temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """By what to divide the logits so that the log-loss of these cases is least, from COLDEST to HOTTEST.

    Give cases from which nothing was learned. 1 where every temperature is as good.
    """
    logits, targets = _checked(logits, targets)
    if not (logits.any() if targets.ndim == 2 else np.ptp(logits, axis=1).any()):
        return 1.0
    # The loss has no dents as a function of 1/T: its slope only rises, so that its zero is shut in from both sides.
    low, high = 1 / HOTTEST, 1 / COLDEST
    if _slope(logits, targets, low)[0] >= 0:
        return HOTTEST
    if _slope(logits, targets, high)[0] <= 0:
        return COLDEST
    at = 1.0
    for _ in range(MOST_STEPS):
        slope, curve = _slope(logits, targets, at)
        low, high = (at, high) if slope < 0 else (low, at)
        step = at - slope / curve if curve > 0 else low
        nearer = step if low < step < high else (low * high) ** 0.5  # Newton's step, or the middle of what is left
        if abs(nearer - at) <= CLOSE_ENOUGH * at:
            return 1 / nearer
        at = nearer
    return 1 / at


def _slope(logits: np.ndarray, targets: np.ndarray, cold: float) -> tuple[float, float]:
    """The log-loss's first and second derivative by 1/T, where that is `cold`."""
    if targets.ndim == 2:
        probable = _sigmoid(logits * cold)
        return float(np.mean(logits * (probable - targets))), float(np.mean(logits**2 * probable * (1 - probable)))
    probable = probabilities(logits * cold)
    mean = (probable * logits).sum(1)
    spread = (probable * (logits - mean[:, None]) ** 2).sum(1)
    return float(np.mean(mean - logits[np.arange(len(targets)), targets])), float(np.mean(spread))


def _sigmoid(numbers: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(0.5 * numbers))


def _checked(logits: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    logits, targets = np.asarray(logits, np.float64), np.asarray(targets)
    if logits.ndim != 2 or targets.shape not in (logits.shape, logits.shape[:1]) or not len(logits):
        raise BadInput(f"logits of the shape {logits.shape} for targets of the shape {targets.shape}")
    if not np.isfinite(logits).all():
        raise BadInput("logits that are infinite or no numbers cannot be calibrated")
    return logits, targets
