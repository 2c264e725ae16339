package strategy

import "github.com/galley-ml/galley/mesh"

// Devices returns the number of devices that the strategy needs.
func (s Strategy) Devices() int {
	s = s.Filled()
	return s.DP * s.TP * s.PP * s.CP * s.Branches
}

// The mesh axes of one pipeline rank, outermost first: neighbouring devices share tensors, then sequences,
// then batches.
const (
	DataAxis    = "dp"
	ExpertAxis  = "ep"
	ContextAxis = "cp"
	TensorAxis  = "tp"
)

// Experts returns how many data-parallel devices share the experts, and whether context-parallel devices do,
// too: if EP does not divide DP, it spans both axes.
func (s Strategy) Experts() (ep int, context bool) {
	s.DP, s.EP, s.CP = s.replicas(), max(s.EP, 1), max(s.CP, 1)
	if s.DP%s.EP != 0 && s.EP%s.CP == 0 && s.DP%(s.EP/s.CP) == 0 {
		return s.EP / s.CP, true
	}
	return gcd(s.EP, s.DP), false
}

// Meshes returns the device mesh of each pipeline rank.
func (s Strategy) Meshes() ([]*mesh.Mesh, error) {
	var axes []mesh.Axis
	ep, _ := s.Experts()
	for _, a := range []mesh.Axis{
		{Name: DataAxis, Size: s.DP / ep}, {Name: ExpertAxis, Size: ep},
		{Name: ContextAxis, Size: s.CP}, {Name: TensorAxis, Size: s.TP},
	} {
		if a.Size > 1 {
			axes = append(axes, a)
		}
	}
	if axes == nil {
		axes = []mesh.Axis{{Name: DataAxis, Size: 1}}
	}
	n := s.DP * s.CP * s.TP
	var list []*mesh.Mesh
	for rank := range s.PP {
		devices := make([]int, n)
		for i := range devices {
			devices[i] = rank*n + i
		}
		m, err := mesh.New(axes, devices...)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}
