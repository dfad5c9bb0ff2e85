"""The studio: a page for marking, predicting and correcting in the browser, and the JSON service behind it."""
