"""Every error a user can cause: one sentence saying what was wrong, with which value, and what to do."""


class EdgeCapeError(Exception):
    """Base of all errors caused by input; the command line prints it without a traceback and exits with 2."""


class ImageError(EdgeCapeError):
    """A picture could not be read or is of no use."""


class AnnotationError(EdgeCapeError):
    """Keypoints, skeleton, boxes or names do not fit together."""


class DataError(EdgeCapeError):
    """A data set, annotation file or cache is missing, damaged or inconsistent."""


class WeightsError(EdgeCapeError):
    """Weights are missing, damaged, of another kind, or not for this network."""


class SettingsError(EdgeCapeError):
    """Settings contradict each other or cannot be used."""
