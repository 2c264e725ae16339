package cuda

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/internal/ptx"
	"github.com/galley-ml/galley/internal/triton"
)

// CallTriton writes the call of a kernel in Triton's IR.
func CallTriton(w *hlo.Writer, k *triton.Kernel, in []hlo.Ref, out ...hlo.Type) []hlo.Ref {
	config := fmt.Sprintf(`{grid_x = %d : i32, grid_y = 1 : i32, grid_z = 1 : i32, ir = %s, name = "%s", `+
		`num_stages = 1 : i32, num_warps = %d : i32}`, k.Programs, hlo.Quote(k.Text()), k.Name(), k.Warps)
	return call(w, hlo.KernelTarget, config, in, out)
}

// CallPTX writes the call of a kernel in PTX. Memory that it wants for itself is a result that nobody reads.
func CallPTX(w *hlo.Writer, k ptx.Kernel, in []hlo.Ref, out ...hlo.Type) []hlo.Ref {
	config, n := hlo.PTXConfig(k.Name, k.Text, k.Blocks, k.Threads, k.Shared), len(out)
	if k.Scratch > 0 {
		out = append(out, hlo.Type{DType: array.I32, Shape: array.Shape{k.Scratch / 4}})
	}
	return call(w, hlo.PTXTarget, config, in, out)[:n]
}

// call writes the call of a kernel whose arrays have their rows one after the other.
func call(w *hlo.Writer, target, config string, in []hlo.Ref, out []hlo.Type) []hlo.Ref {
	layouts := make([]string, len(out))
	for i, t := range out {
		layouts[i] = rowMajor(t.Shape)
	}
	return custom(w, target, config, 4, in, out, layouts)
}

// custom writes a custom call of a version of XLA's interface.
func custom(w *hlo.Writer, target, config string, version int, in []hlo.Ref, out []hlo.Type,
	layouts []string) []hlo.Ref {
	attrs := fmt.Sprintf(`call_target_name = "%s", has_side_effect = false, backend_config = %s, api_version = %d : i32, `+
		`operand_layouts = [%s], result_layouts = [%s]`,
		target, config, version, operandLayouts(in), strings.Join(layouts, ", "))
	return w.OpN("custom_call", attrs, nil, out, in...)
}

func operandLayouts(in []hlo.Ref) string {
	words := make([]string, len(in))
	for i, r := range in {
		words[i] = rowMajor(r.Shape)
	}
	return strings.Join(words, ", ")
}

// rowMajor returns the layout attribute of a tensor whose last dim is contiguous.
func rowMajor(s array.Shape) string {
	dims := make([]int, len(s))
	for i := range dims {
		dims[i] = len(s) - 1 - i
	}
	return layout(dims...)
}

// layout returns a layout attribute: dims from the one that varies fastest in memory.
func layout(dims ...int) string {
	words := make([]string, len(dims))
	for i, d := range dims {
		words[i] = strconv.Itoa(d)
	}
	return fmt.Sprintf("dense<[%s]> : tensor<%dxindex>", strings.Join(words, ", "), len(dims))
}
