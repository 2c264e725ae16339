package step

import (
	"strings"
	"time"

	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/mesh"
)

// metered is a rank whose collectives are reported to the observer: what each moved, in which group, and how
// long the device waited.
type metered struct {
	comm.Comm
	device int
	watch  func(Span)
	meshes []*mesh.Mesh
	axes   map[string]string // by group
}

// Group returns a group of the rank whose calls are reported.
func (m *metered) Group(ranks []int) (*comm.Group, error) { return comm.NewGroup(m, ranks) }

// Start starts the call; it is reported when its result has been waited for.
func (m *metered) Start(c *comm.Call) *comm.Pending {
	started := time.Now()
	inner := m.Comm.Start(c)
	return comm.NewPending(func() (comm.Result, error) {
		waits := time.Now()
		a, err := inner.Wait()
		counts, _ := inner.Counts()
		if c.Kind == comm.Send || c.Kind == comm.Recv || err != nil {
			return comm.Result{Array: a, Counts: counts}, err
		}
		t := c.Traffic(a)
		m.watch(Span{Device: m.device, Kind: Collective, Name: c.Kind.String(), Start: waits, End: time.Now(),
			Since: started, Axes: m.axesOf(c.Group), Group: c.Group.String(), Bytes: int(t.Sent + t.Received)})
		return comm.Result{Array: a, Counts: counts}, err
	})
}

// Progress makes progress on the rank's communication, if its world needs that.
func (m *metered) Progress() {
	if f := comm.Progress(m.Comm); f != nil {
		f()
	}
}

// axesOf returns the mesh axes along which the members of a group differ; pp if they belong to several
// stages.
func (m *metered) axesOf(g *comm.Group) string {
	key := g.String()
	if text, ok := m.axes[key]; ok {
		return text
	}
	text := axesOf(m.meshes, g.Ranks())
	m.axes[key] = text
	return text
}

func axesOf(meshes []*mesh.Mesh, ranks []int) string {
	for _, on := range meshes {
		first, ok := on.Coord(ranks[0])
		if !ok {
			continue
		}
		differ := make([]bool, len(first))
		for _, r := range ranks[1:] {
			at, ok := on.Coord(r)
			if !ok {
				return "pp"
			}
			for i := range at {
				differ[i] = differ[i] || at[i] != first[i]
			}
		}
		var names []string
		for i, a := range on.Axes() {
			if differ[i] {
				names = append(names, a.Name)
			}
		}
		return strings.Join(names, ",")
	}
	return "world"
}
