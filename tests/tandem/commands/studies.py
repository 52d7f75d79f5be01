"""A small study for tests of sweeps and of what shows their results."""
import json

from tandem import SMALL, WithFolder, changed, tandem_json

STUDY = {
    "name": "small",
    "base": changed(SMALL, **{"parallel.data": None}),
    "fill": "parallel.data",
    "axes": [
        {"field": "parallel.tensor", "values": [1, 2, 3]},
        {"name": "batch", "values": [{"label": 8, "set": {"training.global_batch_size": 8}},
                                     {"label": "large", "set": {"training.global_batch_size": 32, "training.micro_batch_size": 2}}]},
    ],
    "points": [{"at": {"parallel.tensor": 1, "batch": 8}, "step_time_s": 1.5, "source": "nobody"}],
    "view": {"x": "batch", "series": "parallel.tensor", "y": "step_time_s"},
}


class Studies(WithFolder):
    def setUp(self):
        super().setUp()
        self.out = self.folder.path / "out"

    def study(self, **changes):
        return self.folder.file("study.json", json.dumps(changed(STUDY, **changes)))

    def sweep(self, path, *arguments):
        return tandem_json("sweep", path, "--out", self.out, *arguments)

    def rows(self):
        """What the rows say, without their checksums."""
        rows = [json.loads(line) for line in (self.out / "results.jsonl").read_text().splitlines()]
        for row in rows:
            del row["checksum"]
        return rows
