"""All probes, in the order in which they run. To add one: a function that returns a ProbeResult, and a row here."""

from bertctl.probe.attention import attention_probe
from bertctl.probe.control import control_probe
from bertctl.probe.geometry import geometry_probe
from bertctl.probe.linear import linear_probe
from bertctl.probe.patches import patch_probe
from bertctl.probe.result import Probe

PROBES: dict[str, Probe] = {
    "linear": linear_probe,
    "control": control_probe,
    "geometry": geometry_probe,
    "attention": attention_probe,
    "patches": patch_probe,
}
