package op

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ptx"
	"github.com/galley-ml/galley/internal/triton"
)

// emitKernel writes the call of a kernel of our own, which XLA compiles with the program.
func emitKernel(w *hlo.Writer, k *triton.Kernel, in []hlo.Ref, out ...hlo.Type) []hlo.Ref {
	config := fmt.Sprintf(`{grid_x = %d : i32, grid_y = 1 : i32, grid_z = 1 : i32, ir = %s, name = "%s", num_stages = 1 : i32, num_warps = %d : i32}`,
		k.Programs, hlo.Quote(k.Text()), k.Name(), k.Warps)
	return emitCall(w, hlo.KernelTarget, config, in, out)
}

// emitPTX is emitKernel for a kernel in PTX, which the driver compiles. Memory that it wants for itself is a result that nobody reads.
func emitPTX(w *hlo.Writer, k ptx.Kernel, in []hlo.Ref, out ...hlo.Type) []hlo.Ref {
	scratch := hlo.Type{DType: array.I32, Shape: array.Shape{k.Scratch / 4}}
	config := hlo.PTXConfig(k.Name, k.Text, k.Blocks, k.Threads, k.Shared)
	return emitCall(w, hlo.PTXTarget, config, in, append(out, scratch))[:len(out)]
}

// emitCall writes the call of a kernel whose arrays have their rows one after the other.
func emitCall(w *hlo.Writer, target, config string, in []hlo.Ref, out []hlo.Type) []hlo.Ref {
	layouts := make([]string, len(out))
	for i, t := range out {
		layouts[i] = rowMajor(t.Shape)
	}
	attrs := fmt.Sprintf(`call_target_name = "%s", has_side_effect = false, backend_config = %s, api_version = 4 : i32, operand_layouts = [%s], result_layouts = [%s]`,
		target, config, operandLayouts(in), strings.Join(layouts, ", "))
	return w.OpN("custom_call", attrs, nil, out, in...)
}
