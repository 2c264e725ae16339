package planfile

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/internal/cluster"
)

// devices returns the device of the cluster that each rank runs on.
func (f *File) devices() ([]*cluster.Device, error) {
	c, err := f.Ordered()
	if len(f.Mapping) > 0 {
		c, err = f.Hardware()
	}
	if err != nil {
		return nil, err
	}
	list := make([]*cluster.Device, f.Strategy.Filled().Devices())
	for r := range list {
		d := r
		if len(f.Mapping) > 0 {
			d = f.Mapping[r]
		}
		list[r] = c.DeviceAt(d)
	}
	return list, nil
}

// Kinds returns the names of the devices that each rank of the pipeline runs on, each name once.
func (f *File) Kinds() ([][]string, error) {
	devices, err := f.devices()
	if err != nil {
		return nil, err
	}
	pp := f.Strategy.Filled().PP
	list := make([][]string, pp)
	for i, d := range devices {
		if r := i / (len(devices) / pp); !slices.Contains(list[r], d.Name) {
			list[r] = append(list[r], d.Name)
		}
	}
	return list, nil
}

// Speeds returns the operations a second that each device multiplies with in the plan's precision, as
// measured where it was.
func (f *File) Speeds() ([]float64, error) {
	devices, err := f.devices()
	if err != nil {
		return nil, err
	}
	precision := f.Workload.Precision
	if precision == "" {
		precision = "bf16"
	}
	var list []float64
	for _, d := range devices {
		r, ok := d.Rate(precision)
		if !ok {
			return nil, fmt.Errorf("device %s: its speed in %s is not known", d.Name, precision)
		}
		if r.Measured > 0 {
			r.Peak = r.Measured
		}
		list = append(list, r.Peak)
	}
	return list, nil
}
