package galley

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
)

// Doing is what each device is at in the step that runs, a line a device: the stage and micro-batch, and the
// op or collective with its line, or the program that a backend has not ended. Between steps there is none.
// It may be called while a step runs, to see where one hangs.
func (t *Trainer) Doing() []string {
	var list []string
	for _, d := range t.exec.Doing() {
		text := fmt.Sprintf("device %d", d.Device)
		if d.Name != "" {
			text += ": " + d.Name
		}
		if d.Node != nil {
			text += ": " + nodeText(d.Node)
		}
		list = append(list, text)
	}
	return list
}

// nodeText is an op and its line.
func nodeText(n *ir.Node) string {
	if pos := n.Pos(); pos != "" {
		return n.Op().Name() + " at " + string(pos)
	}
	return n.Op().Name()
}
