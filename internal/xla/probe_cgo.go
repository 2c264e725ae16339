//go:build cgo && linux

package xla

import (
	"fmt"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ptx"
)

// leastShare is the share of the SMs that a product kernel must keep busy. Below it cuBLAS, which has kernels
// with smaller tiles, uses the others better.
const leastShare = 0.8

// hopper reports whether the first device supports our product kernels: compute capability 9.0 with all SMs,
// since with fewer the last tiles would need a round of their own. A plugin that does not report the number
// of SMs is assumed to have all.
func (c *client) hopper() bool {
	capability, _ := c.attribute(c.all[0].device, "compute_capability")
	_, units := c.attribute(c.all[0].device, "core_count")
	return capability == "9.0" && (units == 0 || units >= ptx.Units)
}

// probe returns a module that runs ptx.Probe.
func probe() string {
	k := ptx.Probe()
	return fmt.Sprintf(`module @probe {
  func.func public @main() -> (tensor<1xi32>) {
    %%0 = "stablehlo.custom_call"() {call_target_name = "%s", has_side_effect = false, backend_config = %s, api_version = 4 : i32, operand_layouts = [], result_layouts = [dense<[0]> : tensor<1xindex>]} : () -> (tensor<1xi32>)
    "func.return"(%%0) : (tensor<1xi32>) -> ()
  }
}
`, hlo.PTXTarget, hlo.PTXConfig(k.Name, k.Text, k.Blocks, k.Threads, k.Shared))
}

// runsPTX reports whether PTX kernels run on the first device. A driver that is too old for their PTX version
// would fail only when a step runs, whose parameters are donated by then.
func (c *client) runsPTX() bool {
	exe, err := c.engine.compile(probe(), options{overrides: c.overrides}.bytes())
	if err != nil {
		return false
	}
	defer c.destroyProgram(exe)
	l := launch{exe: exe, on: c.all[0].device, devices: 1, results: make([]handle, 1)}
	if c.engine.execute(l) != nil {
		return false
	}
	defer c.destroy(l.results[0])
	got := array.New(array.I32, 1)
	return c.engine.read(l.results[0], got) == nil && got.At(0) == 7
}
