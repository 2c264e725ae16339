package sharding

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
)

// shardySharding is a sharding in the notation of Shardy's facts.
type shardySharding struct {
	Mesh string `json:"mesh"`
	Dims []struct {
		Axes     []string `json:"axes"`
		Open     bool     `json:"open"`
		Priority int      `json:"priority"`
	} `json:"dims"`
	Replicated  []string `json:"replicated"`
	Unreduced   []string `json:"unreduced"`
	UnreducedOp string   `json:"unreduced_op"`
}

// shardyMesh is axes with sizes. A mesh without axes is one device, or a placeholder.
type shardyMesh struct {
	Axes [][2]any `json:"axes"`
}

// build returns the mesh; nil if it has no axes.
func (m shardyMesh) build() (*mesh.Mesh, error) {
	if len(m.Axes) == 0 {
		return nil, nil
	}
	axes := make([]mesh.Axis, len(m.Axes))
	for i, a := range m.Axes {
		name, _ := a[0].(string)
		size, _ := a[1].(float64)
		axes[i] = mesh.Axis{Name: name, Size: int(size)}
	}
	return mesh.New(axes)
}

// shardyTensor is a type, and in programs a value.
type shardyTensor struct {
	ID     string          `json:"id"`
	Value  string          `json:"value"`
	Shape  []int           `json:"shape"`
	DType  string          `json:"dtype"`
	Before *shardySharding `json:"sharding_before"`
	// After is the expected sharding; Asserted reports whether there is one.
	After    *shardySharding
	Asserted bool
}

// shardyOp is one operation.
type shardyOp struct {
	Op       string         `json:"op"`
	Target   string         `json:"call_target"`
	Operands []string       `json:"operands"`
	Results  []shardyTensor `json:"results"`
	Attrs    shardyAttrs    `json:"attrs"`
}

// shardyAttrs is the attributes, of all ops, that matter here.
type shardyAttrs struct {
	Batching    [][]int  `json:"batching_dims"`
	Contracting [][]int  `json:"contracting_dims"`
	Dims        []int    `json:"dims"`
	Dimensions  []int    `json:"dimensions"`
	Dim         int      `json:"dim"`
	Dimension   int      `json:"dimension"`
	Cuts        [][3]int `json:"slice_start_limit_stride"`
	Sizes       []int    `json:"sizes"`
	Low         []int    `json:"low"`
	High        []int    `json:"high"`
	Interior    []int    `json:"interior"`
	Reducers    []string `json:"reducer_ops"`
	RegionOps   []string `json:"region_ops"`
	K           int      `json:"k"`
	Stride      []int    `json:"stride"`
	Pad         [][2]int `json:"pad"`
	Dilation    []int    `json:"rhs_dilate"`
	LhsDilation []int    `json:"lhs_dilate"`
	BatchGroups int      `json:"batch_group_count"`
	Groups      int      `json:"feature_group_count"`
	DimNumbers  string   `json:"dim_numbers"`
	Direction   string   `json:"allowed_direction"`
	// Rule is a rule given by the program itself.
	Rule *shardyRule `json:"sharding_rule"`
}

// shardyRule is a factor rule: for each tensor and dim the factors, major first.
type shardyRule struct {
	Operands    [][][]string   `json:"operands"`
	Results     [][][]string   `json:"results"`
	Sizes       map[string]int `json:"sizes"`
	Reduction   []string       `json:"reduction"`
	Replication []string       `json:"need_replication"`
	Permutation []string       `json:"permutation"`
	Blocked     []string       `json:"blocked_propagation"`
}

// typ returns a tensor's type; dtypes that Galley does not have are replaced by the nearest: rules do not
// depend on them.
func (t shardyTensor) typ() (ir.Type, error) {
	if slices.Contains(t.Shape, -1) {
		return ir.Type{}, fmt.Errorf("dims of unknown size")
	}
	dtype, ok := map[string]array.DType{
		"f32": array.F32, "f64": array.F64, "bf16": array.BF16, "f16": array.F16, "i1": array.Bool,
		"i32": array.I32, "i64": array.I64, "ui8": array.U8,
		"i8": array.U8, "ui32": array.I32, "ui64": array.I64, "si32": array.I32, "si64": array.I64,
	}[t.DType]
	if !ok {
		return ir.Type{}, fmt.Errorf("dtype %s does not exist", t.DType)
	}
	return ir.Type{DType: dtype, Shape: t.Shape}, nil
}

// sharding returns the sharding of a fact, for a tensor of a rank.
func (s *shardySharding) sharding(rank int) (mesh.Sharding, error) {
	out := mesh.Closed(mesh.Whole(rank))
	if len(s.Dims) != rank { // one device holds all of it
		return out, nil
	}
	for d, x := range s.Dims {
		axes, err := shardyAxes(x.Axes)
		if err != nil {
			return out, err
		}
		out.Spec.Dims[d] = axes
		out.Freedom[d] = mesh.Freedom{Open: x.Open, Priority: x.Priority}
	}
	var err error
	if out.Replicated, err = shardyAxes(s.Replicated); err != nil {
		return out, err
	}
	partial, err := shardyAxes(s.Unreduced)
	if err != nil {
		return out, err
	}
	kind := mesh.Sum
	if s.UnreducedOp != "" {
		if kind, err = mesh.ParseReduce(s.UnreducedOp); err != nil {
			return out, err
		}
	}
	pending := make([]mesh.Pending, len(partial))
	for i, a := range partial {
		pending[i] = mesh.Pending{Sub: a, Reduce: kind}
	}
	out.Spec = out.Spec.With(pending...)
	return out, nil
}

func shardyAxes(names []string) (mesh.Axes, error) {
	var list mesh.Axes
	for _, name := range names {
		a, err := mesh.ParseAxes(name)
		if err != nil {
			return nil, err
		}
		list = append(list, a...)
	}
	return list, nil
}
