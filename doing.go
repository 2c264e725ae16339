package galley

import (
	"fmt"

	"github.com/galley-ml/galley/internal/ir"
)

// Doing is what each device is at in the step that runs, a line a device: the stage and micro-batch, and the op or collective with
// its line. Between steps there is none, and a backend does not tell. It may be called while a step runs, to see where one hangs.
func (t *Trainer) Doing() []string {
	if t.many == nil {
		if n := t.doingOne(); n != nil {
			return []string{"device 0: " + nodeText(n)}
		}
		return nil
	}
	r := t.many.started.Load()
	if r == nil {
		return nil
	}
	var list []string
	for _, d := range r.Doing() {
		text := fmt.Sprintf("device %d: %s", d.Device, d.Name)
		if d.Node != nil {
			text += ": " + nodeText(d.Node)
		}
		list = append(list, text)
	}
	return list
}

func (t *Trainer) doingOne() *ir.Node {
	if t.c.Device == nil || t.remote != nil {
		return nil
	}
	return t.c.Device.Doing()
}

// nodeText is an op and its line.
func nodeText(n *ir.Node) string {
	if pos := n.Pos(); pos != "" {
		return n.Op().Name() + " at " + string(pos)
	}
	return n.Op().Name()
}
