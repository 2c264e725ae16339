package nn

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Summary returns a table of a model's parameters: one row per layer with shapes, numbers of elements and
// bytes, and the totals. A parameter's layer is its name up to the last dot.
func Summary(params []*Param) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "layer\tshapes\tparameters\tbytes")
	total, bytes, frozen, buffers := 0, 0, 0, 0
	for i := 0; i < len(params); {
		layer, _ := cutLast(params[i].Name)
		n, size := 0, 0
		var shapes []string
		for ; i < len(params); i++ {
			in, name := cutLast(params[i].Name)
			if in != layer {
				break
			}
			p := params[i]
			shapes = append(shapes, name+" "+p.Type.String())
			n, size = n+p.Type.Shape.Len(), size+p.Type.Bytes()
			switch {
			case p.Buffer:
				buffers += p.Type.Shape.Len()
			case p.Fixed:
				frozen += p.Type.Shape.Len()
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", layer, strings.Join(shapes, ", "), n, size)
		total, bytes = total+n, bytes+size
	}
	fmt.Fprintf(w, "all\t\t%d\t%d\n", total, bytes)
	if frozen > 0 {
		fmt.Fprintf(w, "frozen\t\t%d\t\n", frozen)
	}
	if buffers > 0 {
		fmt.Fprintf(w, "buffers\t\t%d\t\n", buffers)
	}
	w.Flush()
	return b.String()
}

// cutLast cuts a name at its last dot; a name without one is a layer of its own.
func cutLast(name string) (layer, param string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return name, name
}
