package plan

import (
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/ir"
)

// cores prices ops on a device that is cores of a machine without a measured curve. The curve of an
// accelerator does not fit a core: that has no units to fill with tiles and no kernels to launch, so half of
// a batch takes half of the time.
type cores struct {
	host    *Host
	threads int
	// slower multiplies the time of that many typical cores.
	slower float64
}

// coresOf returns the typical cores of a device, as many as it has, or as its rate is worth; nil if it is an
// accelerator or its curve was measured.
func coresOf(d *cluster.Device, cal *Calibration, peak float64) *cores {
	for _, c := range cal.Devices {
		if c.Device == d.Name {
			return nil
		}
	}
	if !d.IsCPU() {
		return nil
	}
	threads := d.Units
	if threads == 0 {
		threads = max(1, int(peak/cluster.CoreRate))
	}
	return &cores{UsualHost(threads), threads, float64(threads) * cluster.CoreRate / peak}
}

// node returns the time of a node that moves something.
func (c *cores) node(n *ir.Node) float64 { return c.host.Node(n, c.threads) * c.slower }
