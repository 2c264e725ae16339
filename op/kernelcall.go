package op

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/triton"
)

// emitKernel writes the call of a kernel of our own, which XLA compiles with the program.
func emitKernel(w *hlo.Writer, k *triton.Kernel, in []hlo.Ref, out ...hlo.Type) []hlo.Ref {
	layouts := make([]string, len(out))
	for i, t := range out {
		layouts[i] = rowMajor(t.Shape)
	}
	config := fmt.Sprintf(`{grid_x = %d : i32, grid_y = 1 : i32, grid_z = 1 : i32, ir = %s, name = "%s", num_stages = 1 : i32, num_warps = %d : i32}`,
		k.Programs, hlo.Quote(k.Text()), k.Name(), k.Warps)
	attrs := fmt.Sprintf(`call_target_name = "%s", has_side_effect = false, backend_config = %s, api_version = 4 : i32, operand_layouts = [%s], result_layouts = [%s]`,
		hlo.KernelTarget, config, operandLayouts(in), strings.Join(layouts, ", "))
	return w.OpN("custom_call", attrs, nil, out, in...)
}
