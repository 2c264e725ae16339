package galley_test

import (
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

// TestStaticEqualsEager: the same function of sharded tensors, op by op and as one program.
func TestStaticEqualsEager(t *testing.T) {
	m, w := parseMesh(t, "dp=2,tp=2"), world(t, 4)
	arrays := []array.Array{wave(6, 5), wave(5, 7), wave(7, 4)}
	places := [][]mesh.Placement{{mesh.Shard(0)}, {mesh.Replicate(), mesh.Shard(1)},
		{mesh.Replicate(), mesh.Shard(0)}}
	var types []galley.Type
	var values []*galley.Tensor
	params := map[int]mesh.Sharding{}
	for i, a := range arrays {
		types = append(types, galley.Type{DType: a.DType(), Shape: a.Shape()})
		values = append(values, dtensor.Shard(w.Tensor(a), m, places[i]...).Track())
		_, spec, _ := dtensor.Placements(values[i])
		params[i] = mesh.Closed(spec)
	}
	p, err := galley.Trace("mlp", types, func(in []*galley.Tensor) []*galley.Tensor {
		return mlp(in[0], in[1],
			in[2])
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := galley.Distribute(p, galley.DistributeConfig{Mesh: m, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Compile(w, distribute.Options{})
	if err != nil {
		t.Fatal(err)
	}
	static, err := e.RunSharded(values)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range mlp(values[0], values[1], values[2]) {
		a, err := galley.Read(v)
		if err != nil {
			t.Fatal(err)
		}
		b, err := galley.Read(static[i])
		if err != nil {
			t.Fatal(err)
		}
		same(t, [][]array.Array{{b}}, [][]array.Array{{a}}, 1e-12)
	}
}

// TestStaticAcrossMeshes: one program on two meshes, whose devices have programs of their own, equals the
// eager one.
func TestStaticAcrossMeshes(t *testing.T) {
	first, second := parseMesh(t, "dp=2,tp=2"), parseMesh(t, "dp=2,tp=2@[4,5,6,7]")
	w := world(t, 8)
	stages := func(in []*galley.Tensor) []*galley.Tensor {
		x := dtensor.Shard(in[0], first, mesh.Shard(0))
		w1 := dtensor.Shard(in[1], first, mesh.Replicate(), mesh.Shard(1))
		w2 := dtensor.Shard(in[2], second, mesh.Replicate(), mesh.Shard(0))
		h := dtensor.Reshard(op.Tanh(op.MatMul(x, w1)), second, mesh.Shard(0), mesh.Shard(1))
		loss := op.Mean(op.Square(op.MatMul(h, w2)))
		return append([]*galley.Tensor{loss}, galley.Grad(loss, in...)...)
	}
	arrays := []array.Array{wave(6, 5), wave(5, 7), wave(7, 4)}
	var types []galley.Type
	var values []*galley.Tensor
	for _, a := range arrays {
		types = append(types, galley.Type{DType: a.DType(), Shape: a.Shape()})
		values = append(values, w.Tensor(a).Track())
	}
	p, err := galley.Trace("stages", types, stages)
	if err != nil {
		t.Fatal(err)
	}
	d, err := galley.Distribute(p, galley.DistributeConfig{Mesh: first})
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Compile(w, distribute.Options{})
	if err != nil {
		t.Fatal(err)
	}
	static, err := e.Run(arrays)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range stages(values) {
		a, err := galley.Read(v)
		if err != nil {
			t.Fatal(err)
		}
		same(t, [][]array.Array{static[i : i+1]}, [][]array.Array{{a}}, 1e-12)
	}
}

// TestEagerLlama: the loss of a llama whose parameters have the layout that a plan says, op by op, is that of
// the distributed step.
func TestEagerLlama(t *testing.T) {
	p, args := stepOf(t, smallLlama(), array.F64, 4, 6)
	m, w := parseMesh(t, "dp=2,tp=2"), world(t, 4)
	d := spreadOut(t, p, m, "megatron")
	e, err := d.Compile(w, distribute.Options{})
	if err != nil {
		t.Fatal(err)
	}
	static, err := e.Run(args)
	if err != nil {
		t.Fatal(err)
	}
	model, err := models.New(smallLlama(), nn.Config{Scope: w, DType: array.F64, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range model.Params() {
		_, spec := d.Param(i)
		q.Value = dtensor.ShardBySpec(q.Value, m, spec).Detach().Track()
	}
	var batch []*galley.Tensor
	for _, a := range args[len(args)-2:] {
		batch = append(batch, dtensor.Shard(w.Tensor(a), m, mesh.Shard(0)))
	}
	loss := model.Loss(batch[0], batch[1])
	norm := optim.GlobalNorm(op.GradOnce([]*galley.Tensor{loss}, nil, nn.Values(model.Params())))
	for i, v := range []*galley.Tensor{loss, norm} {
		a, err := galley.Read(v)
		if err != nil {
			t.Fatal(err)
		}
		same(t, [][]array.Array{{a}}, [][]array.Array{{static[i]}}, 1e-10)
	}
}

// TestCaptured: an eager tensor that a trace meets stays in its layout.
func TestCaptured(t *testing.T) {
	m, w := parseMesh(t, "tp=2"), world(t, 2)
	weight := dtensor.Shard(w.Tensor(wave(6, 4)), m, mesh.Shard(1))
	p, err := galley.Trace("product", []galley.Type{{DType: array.F64, Shape: array.Shape{3, 6}}},
		func(in []*galley.Tensor) []*galley.Tensor {
			return []*galley.Tensor{op.MatMul(in[0], weight)}
		})
	if err != nil {
		t.Fatal(err)
	}
	d, err := galley.Distribute(p, galley.DistributeConfig{Mesh: m})
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Compile(w, distribute.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.RunSharded([]*galley.Tensor{w.Tensor(wave(3, 6))})
	if err != nil {
		t.Fatal(err)
	}
	if _, spec, _ := dtensor.Placements(out[0]); spec.String() != "@[_,tp]" || len(d.Inserted()) != 0 {
		t.Errorf("the product has layout %s after %v", spec, d.Inserted())
	}
	got, err := galley.Read(out[0])
	if err != nil {
		t.Fatal(err)
	}
	want, err := galley.Read(op.MatMul(w.Tensor(wave(3, 6)), w.Tensor(wave(6, 4))))
	if err != nil {
		t.Fatal(err)
	}
	same(t, [][]array.Array{{got}}, [][]array.Array{{want}}, 1e-12)
}

// TestDeviceGroupEagerly: ops that devices compute together do so op by op as well, gradients included.
func TestDeviceGroupEagerly(t *testing.T) {
	m, w, s := parseMesh(t, "dp=2,tp=2"), world(t, 4), device(t).NewSession()
	labels := array.FromSlice([]int32{1, 6, 0, 3}, 4)
	for name, c := range map[string]struct {
		shape []int
		split int
		f     func(x *galley.Tensor, tensor func(array.Array) *galley.Tensor) *galley.Tensor
	}{
		"cross-entropy": {[]int{4, 7}, 1, func(x *galley.Tensor,
			tensor func(array.Array) *galley.Tensor) *galley.Tensor {
			return op.CrossEntropy(x, tensor(labels), op.CrossEntropyConfig{LabelSmoothing: 0.1})
		}},
		"attention": {[]int{2, 6, 2, 4}, 1, func(x *galley.Tensor,
			_ func(array.Array) *galley.Tensor) *galley.Tensor {
			return op.Sum(op.Square(op.Attention(x, op.MulScalar(x, 0.5), op.Sin(x),
				op.AttentionConfig{Causal: true})))
		}},
		"norm": {[]int{4, 6}, 1, func(x *galley.Tensor, _ func(array.Array) *galley.Tensor) *galley.Tensor {
			return op.Sum(op.Square(op.LayerNorm(x, nil, nil, 1e-5)))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := wave(c.shape...)
			whole := s.Tensor(a).Track()
			parts := dtensor.Shard(w.Tensor(a), m, mesh.Shard(0), mesh.Shard(c.split)).Track()
			both := func(x *galley.Tensor, tensor func(array.Array) *galley.Tensor) []array.Array {
				y := c.f(x, tensor)
				var list []array.Array
				for _, v := range append(op.Grad([]*op.Tensor{y}, nil, []*op.Tensor{x}), y) {
					got, err := galley.Read(v)
					if err != nil {
						t.Fatal(err)
					}
					list = append(list, got)
				}
				return list
			}
			same(t, [][]array.Array{both(parts, w.Tensor)}, [][]array.Array{both(whole, s.Tensor)}, 1e-12)
		})
	}
}
