"""SGLang's expert distribution recorder as a server's process has it: the classes, methods and signatures that the adapter meets,
one set for each period of its interface. Read in the engine's sources; the gatherers' hooks are left out."""

import torch


def accumulator_class(outputs):
    """`outputs`: append() has the fourth argument that came in December 2025."""

    class _Accumulator:
        def get_single_pass_gatherer_keys(self):
            return ["primary"]

        def get_single_pass_gatherer_key(self, debug_name):
            return "primary"

        def reset(self):
            pass

        def dump(self, output_mode):
            pass

    if outputs:
        class _StatAccumulator(_Accumulator):
            def append(self, forward_pass_id, gatherer_key, single_pass_data, outputs):
                raise AssertionError("the engine's own accumulator is in use")
    else:
        class _StatAccumulator(_Accumulator):
            def append(self, forward_pass_id, gatherer_key, single_pass_data):
                raise AssertionError("the engine's own accumulator is in use")
    return _StatAccumulator


class Metadata:
    def __init__(self, physical_to_logical_map):
        self.physical_to_logical_map = torch.tensor(physical_to_logical_map)
        self.num_layers, self.num_physical_experts = self.physical_to_logical_map.shape


class ServerArgs:
    """Of one period: its name for the switch of the metrics."""

    def __init__(self, switch, value, **more):
        self.expert_distribution_recorder_mode = "stat"
        self.enable_eplb = False
        setattr(self, switch, value)
        vars(self).update(more)


# Period -> does append() get `outputs`, the switch of the metrics and its value when they are off.
PERIODS = {
    "until 2025-12-17": (False, "enable_expert_distribution_metrics", False),
    "from 2025-12-18": (True, "enable_expert_distribution_metrics", False),
    "from 2026-08-16": (True, "expert_balancedness_report_mode", "off"),
}


class _ExpertDistributionRecorderReal:
    """One forward pass is pass_of(counts); everything that raises out of here ends a scheduler."""

    def __init__(self, period, physical_to_logical_map):
        self._outputs = PERIODS[period][0]
        self._expert_location_metadata = Metadata(physical_to_logical_map)
        self._recording = False
        self._accumulator = accumulator_class(self._outputs)()

    def pass_of(self, counts, forward_pass_id=0):
        if not self._recording:
            return
        for gatherer_key in self._accumulator.get_single_pass_gatherer_keys():
            data = {"global_physical_count": counts}
            if self._outputs:
                self._accumulator.append(forward_pass_id, gatherer_key, data, {})
            else:
                self._accumulator.append(forward_pass_id, gatherer_key, data)

    def _reset(self):
        self._accumulator.reset()

    def start_record(self):
        self._reset()
        self._recording = True

    def stop_record(self):
        self._recording = False

    def dump_record(self, output_mode="file"):
        output = self._accumulator.dump(output_mode=output_mode)
        self._reset()
        return output

    @property
    def recording(self):
        return self._recording


def server(period, physical_to_logical_map, **arguments):
    """The recorder and the arguments of a server of that period."""
    _, switch, off = PERIODS[period]
    return _ExpertDistributionRecorderReal(period, physical_to_logical_map), ServerArgs(switch, off, **arguments)
