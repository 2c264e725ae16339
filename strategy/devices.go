package strategy

import "github.com/galley-ml/galley/mesh"

// Devices is how many devices the strategy needs.
func (s Strategy) Devices() int {
	s = s.Filled()
	return s.DP * s.TP * s.PP * s.CP
}

// The axes of the mesh of one rank of a pipeline, slowest first: neighbours share tensors, then sequences,
// then batches.
const (
	DataAxis    = "dp"
	ExpertAxis  = "ep"
	ContextAxis = "cp"
	TensorAxis  = "tp"
)

// Meshes is the devices of each rank of the pipeline.
func (s Strategy) Meshes() ([]*mesh.Mesh, error) {
	var axes []mesh.Axis
	for _, a := range []mesh.Axis{
		{Name: DataAxis, Size: s.DP / s.EP}, {Name: ExpertAxis, Size: s.EP},
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
