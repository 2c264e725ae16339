package galley_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/distribute"
	"github.com/galley-ml/galley/dtensor"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/op"
	"github.com/galley-ml/galley/optim"
)

func parseMesh(t *testing.T, text string) *mesh.Mesh {
	t.Helper()
	m, err := mesh.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func world(t *testing.T, n int) *dtensor.World {
	t.Helper()
	w, err := dtensor.NewWorld(device(t), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func wave(shape ...int) array.Array {
	a := array.New(array.F64, shape...)
	for i := range a.Len() {
		array.Data[float64](a)[i] = math.Sin(float64(i)*0.7 + 1)
	}
	return a
}

// mlp returns two products with a nonlinearity and its gradients: what the placements of its operands must
// not change.
func mlp(x, w1, w2 *galley.Tensor) []*galley.Tensor {
	loss := op.Mean(op.Square(op.MatMul(op.Tanh(op.MatMul(x, w1)), w2)))
	return append([]*galley.Tensor{loss}, galley.Grad(loss, x, w1, w2)...)
}

// TestEagerShardings: whatever the placements, an eager program gives the numbers of one device.
func TestEagerShardings(t *testing.T) {
	x, w1, w2 := wave(6, 5), wave(5, 7), wave(7, 4)
	var want []array.Array
	s := device(t).NewSession()
	for _, v := range mlp(s.Tensor(x).Track(), s.Tensor(w1).Track(), s.Tensor(w2).Track()) {
		a, err := galley.Read(v)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, a)
	}
	choices := []mesh.Placement{mesh.Replicate(), mesh.Shard(0), mesh.Shard(1)}
	for _, text := range []string{"a=2", "a=3", "a=2,b=2", "a=2,b=3"} {
		m := parseMesh(t, text)
		w := world(t, m.Size())
		n := 1
		for range 3 * m.NumAxes() {
			n *= len(choices)
		}
		for code := 0; code < n; code += max(1, n/40) {
			ps := make([][]mesh.Placement, 3)
			c := code
			for i := range ps {
				for range m.NumAxes() {
					ps[i] = append(ps[i], choices[c%len(choices)])
					c /= len(choices)
				}
			}
			got := mlp(
				dtensor.Shard(w.Tensor(x), m, ps[0]...).Track(),
				dtensor.Shard(w.Tensor(w1), m, ps[1]...).Track(),
				dtensor.Shard(w.Tensor(w2), m, ps[2]...).Track())
			for i, v := range got {
				a, err := galley.Read(v)
				if err != nil {
					t.Fatalf("%s %v: %v", text, ps, err)
				}
				for j := range a.Len() {
					if math.Abs(a.At(j)-want[i].At(j)) > 1e-12 {
						t.Fatalf("%s %v: result %d: got %v, want %v", text, ps, i, a, want[i])
					}
				}
			}
		}
	}
}

func TestReshardAcrossMeshes(t *testing.T) {
	first, second := parseMesh(t, "dp=2,tp=2"), parseMesh(t, "dp=2,tp=2@[4,5,6,7]")
	w := world(t, 8)
	x := dtensor.Shard(w.Tensor(wave(5, 6)), first, mesh.Shard(0), mesh.Shard(1)).Track()
	y := dtensor.Reshard(op.Square(x), second, mesh.Replicate(), mesh.Shard(0))
	m, spec, ok := dtensor.Placements(y)
	if !ok || !m.Equal(second) || spec.String() != "@[tp,_]" {
		t.Fatalf("has layout %v on %v", spec, m)
	}
	g := galley.Grad(op.Sum(op.Square(y)), x)[0]
	if m, _, _ := dtensor.Placements(g); m == nil || !m.Equal(first) {
		t.Errorf("the gradient is on %v", m)
	}
	a, err := galley.Read(g)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range array.Data[float64](wave(5, 6)) {
		if math.Abs(a.At(i)-4*v*v*v) > 1e-12 {
			t.Fatalf("gradient %v at %d, want %v", a.At(i), i, 4*v*v*v)
		}
	}
	if z := op.Add(x, y); z.Err() == nil || !strings.Contains(z.Err().Error(), "reshard one of them") {
		t.Errorf("got %v", z.Err())
	}
}

func TestFromFuncMakesOnlyParts(t *testing.T) {
	m, w := parseMesh(t, "a=4"), world(t, 4)
	made := 0
	x, err := dtensor.FromFunc(w, galley.Type{DType: array.F32, Shape: array.Shape{10, 3}}, m,
		func(b mesh.Box) array.Array {
			made += b.Len()
			a := array.New(array.F32, b.Size...)
			for i := range a.Len() {
				array.Data[float32](a)[i] = float32(b.Start[0]*3 + i)
			}
			return a
		}, mesh.Shard(0))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := galley.Read(x)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole.Len() {
		if whole.At(i) != float64(i) {
			t.Fatalf("got %v", whole)
		}
	}
	if made != 30 {
		t.Errorf("%d elements were made, want 30", made)
	}
}

// TestShardedTraining: a layer trained on shards has the losses of one device.
func TestShardedTraining(t *testing.T) {
	m, w := parseMesh(t, "dp=2,tp=2"), world(t, 4)
	train := func(in *nn.Init, place func(x *galley.Tensor) *galley.Tensor) []float64 {
		up, down := nn.NewLinear(in.At("up"), 6, 8), nn.NewLinear(in.At("down"), 8, 3)
		if err := dtensor.ShardLayer(in.Params(), m, func(name string, _ galley.Type) []mesh.Placement {
			switch name {
			case "up.weight", "up.bias":
				return []mesh.Placement{mesh.Replicate(), mesh.Shard(0)}
			case "down.weight":
				return []mesh.Placement{mesh.Replicate(), mesh.Shard(1)}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		opt := optim.AdamW{}
		slots := map[string][]*galley.Tensor{}
		var losses []float64
		for step := range 5 {
			x := place(in.Params()[0].Value)
			loss := op.Mean(op.Square(down.Forward(op.Tanh(up.Forward(x)))))
			a, err := galley.Read(loss)
			if err != nil {
				t.Fatal(err)
			}
			losses = append(losses, a.At(0))
			grads := op.GradOnce([]*galley.Tensor{loss}, nil, nn.Values(in.Params()))
			for i, p := range in.Params() {
				if slots[p.Name] == nil {
					slots[p.Name] = []*galley.Tensor{op.ZerosLike(p.Value), op.ZerosLike(p.Value)}
				}
				at := optim.Step{LR: op.Const(p.Value, 0.01), Count: op.Const(p.Value, float64(step+1)),
					Scale: op.Const(p.Value, 1)}
				var next *galley.Tensor
				next, slots[p.Name] = opt.Update(p.Value.Detach(), grads[i], slots[p.Name], at)
				p.Value = next.Track()
			}
		}
		return losses
	}
	sharded := train(nn.NewInit(nn.Config{Scope: w, Seed: 5, DType: array.F64}),
		func(*galley.Tensor) *galley.Tensor {
			return dtensor.Shard(w.Tensor(wave(4, 6)), m, mesh.Shard(0))
		})
	one := world(t, 4)
	plain := train(nn.NewInit(nn.Config{Scope: one, Seed: 5, DType: array.F64}),
		func(*galley.Tensor) *galley.Tensor {
			return dtensor.Shard(one.Tensor(wave(4, 6)), m)
		})
	if fmt.Sprintf("%.12f", sharded) != fmt.Sprintf("%.12f", plain) {
		t.Errorf("sharded %v\nplain   %v", sharded, plain)
	}
}

// TestLocalMap: a function of parts gives the same eagerly on devices, in a program, and on one device, with
// its gradient.
func TestLocalMap(t *testing.T) {
	m, w := parseMesh(t, "a=2,b=2"), world(t, 4)
	f := func(x, y *galley.Tensor) []*galley.Tensor {
		out := dtensor.LocalMap(func(p []*galley.Tensor) []*galley.Tensor {
			z := op.MatMul(p[0], p[1])
			return []*galley.Tensor{z, op.Mean(z, 1)} // a mean over a part is not a mean over the whole
		}, m, []mesh.Placements{{mesh.Shard(0), mesh.Shard(1)}, {mesh.Replicate(), mesh.Shard(0)}},
			[]mesh.Placements{{mesh.Shard(0), mesh.Partial(mesh.Sum)}, {mesh.Shard(0), mesh.Partial(mesh.Sum)}}, x, y)
		loss := op.Add(op.Sum(op.Square(out[0])), op.Sum(out[1]))
		return append([]*galley.Tensor{loss}, galley.Grad(loss, x, y)...)
	}
	x, y := wave(4, 6), wave(6, 3)
	s := device(t).NewSession()
	want := readAll(t, f(s.Tensor(x).Track(), s.Tensor(y).Track()))
	for name, got := range map[string][]array.Array{
		"eager": readAll(t, f(w.Tensor(x).Track(), w.Tensor(y).Track())),
		"eager, placed": readAll(t, f(dtensor.Shard(w.Tensor(x), m, mesh.Shard(1)).Track(),
			dtensor.Shard(w.Tensor(y), m).Track())),
		"static": runStatic(t, w, m, []array.Array{x, y},
			func(in []*galley.Tensor) []*galley.Tensor { return f(in[0], in[1]) }),
	} {
		for i := range want {
			for j := range want[i].Len() {
				if math.Abs(got[i].At(j)-want[i].At(j)) > 1e-12 {
					t.Fatalf("%s: result %d: got %v, want %v", name, i, got[i], want[i])
				}
			}
		}
	}
	bad := dtensor.LocalMap(func(p []*galley.Tensor) []*galley.Tensor { return p }, m,
		[]mesh.Placements{{mesh.Shard(0)}}, []mesh.Placements{{mesh.Replicate()}}, s.Tensor(x))
	if bad[0].Err() == nil || !strings.Contains(bad[0].Err().Error(), "shard the result along it") {
		t.Errorf("got %v", bad[0].Err())
	}
}

func readAll(t *testing.T, xs []*galley.Tensor) []array.Array {
	t.Helper()
	out := make([]array.Array, len(xs))
	for i, x := range xs {
		a, err := galley.Read(x)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = a
	}
	return out
}

func runStatic(t *testing.T, w *dtensor.World, m *mesh.Mesh, args []array.Array,
	f func([]*galley.Tensor) []*galley.Tensor) []array.Array {
	t.Helper()
	var types []galley.Type
	for _, a := range args {
		types = append(types, galley.Type{DType: a.DType(), Shape: a.Shape()})
	}
	p, err := galley.Trace("f", types, f)
	if err != nil {
		t.Fatal(err)
	}
	d, err := galley.Distribute(p, galley.DistributeConfig{Mesh: m,
		Params: map[int]mesh.Sharding{0: mesh.Open(mesh.Split(mesh.On("a"), mesh.On("b")))}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := d.Compile(w, distribute.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := e.Run(args)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
