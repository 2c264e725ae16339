package op

import (
	"fmt"
	"slices"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/comm"
	"github.com/galley-ml/galley/internal/hlo"
	"github.com/galley-ml/galley/mesh"
)

// expertsExchange computes experts on devices that each have rows and some of the experts: rows are sent to
// the devices along axes that own their experts, and the results are sent back. The number of rows sent
// depends on the choices; none is dropped.
//
// Owners holds, for each expert, the position along the axes of the devices that own it. The device itself
// has those from Offset on; for rows of other experts with the same position it returns zeros.
type expertsExchange struct {
	Mesh, Axes string
	Owners     []int
	Offset     int
	// Outer and Inner, if set, split the axes: rows are sent within hosts first, then between them.
	Outer, Inner string
}

func (expertsExchange) Name() string             { return "all_to_all_experts" }
func (o expertsExchange) Over() (string, string) { return o.Mesh, o.Axes }
func (expertsExchange) Rule([]Type) mesh.Rule    { return mesh.Unknown }

// part returns the op for the experts that the device has.
func (o expertsExchange) part() experts { return experts{Offset: o.Offset, Total: len(o.Owners)} }

func (o expertsExchange) Infer(in []Type) ([]Type, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	return o.part().Infer(in)
}

func (o expertsExchange) check() error {
	t, err := newTeam(o.Mesh, o.Axes)
	if err != nil {
		return err
	}
	if n := t.mesh.Count(t.axes); slices.ContainsFunc(o.Owners, func(p int) bool { return p < 0 || p >= n }) {
		return fmt.Errorf("owners %v: want places among %d devices", o.Owners, n)
	}
	return nil
}

func (expertsExchange) NoGradient() string {
	return "it is part of a local program: differentiate the global one"
}

func (expertsExchange) VJP(in, _, _ []*Tensor) []*Tensor { return make([]*Tensor, len(in)) }

func (o expertsExchange) Work(in, out []Type) Work {
	w := experts{}.Work(in, out)
	w.Wire = o.wire(in, in[0].Shape[len(in[0].Shape)-1]+in[4].Shape[1])
	return w
}

// wire returns the bytes that a device sends if each pair sends and receives the given number of elements and
// experts are chosen evenly.
func (o expertsExchange) wire(in []Type, elements int) float64 {
	return ring(teamSize(o.Mesh, o.Axes), float64(in[1].Shape.Len()*elements*in[0].DType.Size()))
}

func (o expertsExchange) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runExpertsExchange[float32](env, o, in, out[0]) },
		func() { runExpertsExchange[float64](env, o, in, out[0]) })
}

func runExpertsExchange[T floats](env *Env, o expertsExchange, in []array.Array, out array.Array) {
	b, t := newExpertBank[T](env, in), newExpertTraffic(env, o, in)
	x, weight, y := array.Data[T](in[0]), array.Data[T](in[2]), array.Data[T](out)
	got := sendRows(t, b.width, func(pair int, dst []T) { copy(dst, rowOf(x, pair/t.perRow, b.width)) })
	back := make([]T, t.gets()*b.out)
	b.forward(env, t.lists, expertRows[T]{
		read:  func(row int, dst []T) { copy(dst, rowOf(got, row, b.width)) },
		write: func(row int, src []T) { copy(rowOf(back, row, b.out), src) },
	})
	results := returnRows(t, b.out, back)
	clear(y)
	for _, i := range t.byExpert {
		pair := t.pairs[i]
		addScaled(rowOf(y, pair/t.perRow, b.out), weight[pair], rowOf(results, i, b.out))
	}
}

func (o expertsExchange) Emit(w *hlo.Writer, _ []hlo.Ref, out []Type) []hlo.Ref {
	return w.Unsupported("all_to_all_experts: how many rows go where is known at run time only",
		hloTypes(out)...)
}

func (expertsExchange) Samples() []Sample {
	o := expertsExchange{Mesh: "x=1", Axes: "x", Owners: make([]int, 4)}
	return []Sample{{Op: o, In: expertsSample(4, 5, 3)}}
}

// expertsExchangeGrad computes the gradients of expertsExchange: those of the matrices are sums over the rows
// of all devices along the axes.
type expertsExchangeGrad expertsExchange

func (expertsExchangeGrad) Name() string             { return "all_to_all_experts_grad" }
func (expertsExchangeGrad) NumResults(int) int       { return 4 }
func (o expertsExchangeGrad) Over() (string, string) { return o.Mesh, o.Axes }
func (expertsExchangeGrad) Rule([]Type) mesh.Rule    { return mesh.Unknown }

func (expertsExchangeGrad) NoGradient() string { return expertsExchange{}.NoGradient() }

func (expertsExchangeGrad) VJP(in, _, _ []*Tensor) []*Tensor { return make([]*Tensor, len(in)) }

func (o expertsExchangeGrad) Infer(in []Type) ([]Type, error) {
	if err := expertsExchange(o).check(); err != nil {
		return nil, err
	}
	return expertsGrad(expertsExchange(o).part()).Infer(in)
}

func (o expertsExchangeGrad) Work(in, out []Type) Work {
	w := expertsGrad{}.Work(in, out)
	w.Wire = expertsExchange(o).wire(in, 2*in[0].Shape[len(in[0].Shape)-1]+in[4].Shape[1]+2)
	return w
}

func (o expertsExchangeGrad) Eval(env *Env, in, out []array.Array) {
	float(out[0], func() { runExpertsExchangeGrad[float32](env, o, in, out) },
		func() { runExpertsExchangeGrad[float64](env, o, in, out) })
}

func runExpertsExchangeGrad[T floats](env *Env, o expertsExchangeGrad, in, out []array.Array) {
	b, t := newExpertBank[T](env, in), newExpertTraffic(env, expertsExchange(o), in)
	for _, a := range out {
		clear(a.Bytes())
	}
	x, weight, dy := array.Data[T](in[0]), array.Data[T](in[2]), array.Data[T](in[5])
	there := b.width + b.out + 1 // a row, the gradient of its result, and its weight
	got := sendRows(t, there, func(pair int, dst []T) {
		copy(dst, rowOf(x, pair/t.perRow, b.width))
		copy(dst[b.width:], rowOf(dy, pair/t.perRow, b.out))
		dst[there-1] = weight[pair]
	})
	home := b.width + 1
	back := make([]T, t.gets()*home)
	b.backward(env, t.lists, expertGrads[T]{array.Data[T](out[2]), array.Data[T](out[3])}, expertBackRows[T]{
		read: func(row int, dst []T) { copy(dst, rowOf(got, row, there)) },
		readDY: func(row int, dst []T) T {
			copy(dst, rowOf(got, row, there)[b.width:])
			return rowOf(got, row, there)[there-1]
		},
		write: func(row int, dx []T, dweight T) {
			copy(rowOf(back, row, home), dx)
			rowOf(back, row, home)[b.width] = dweight
		},
	})
	results := returnRows(t, home, back)
	dx, dweight := array.Data[T](out[0]), array.Data[T](out[1])
	for _, i := range t.byExpert {
		pair, row := t.pairs[i], rowOf(results, i, home)
		addScaled(rowOf(dx, pair/t.perRow, b.width), 1, row[:b.width])
		dweight[pair] = row[b.width]
	}
}

func (o expertsExchangeGrad) Emit(w *hlo.Writer, in []hlo.Ref, out []Type) []hlo.Ref {
	return expertsExchange(o).Emit(w, in, out)
}

func (expertsExchangeGrad) Samples() []Sample {
	o := expertsExchangeGrad{Mesh: "x=1", Axes: "x", Owners: make([]int, 4)}
	return []Sample{{Op: o, In: append(expertsSample(4, 5, 3), f32(5, 3, 5))}}
}

// expertTraffic holds what every device sends to every other.
type expertTraffic struct {
	op     Collective
	group  *comm.Group
	hosts  *hostTeam // nil if the exchange has one step
	perRow int
	// pairs holds the pairs that the device sends, sorted by owner, expert and position, and sends their number
	// for each device; byExpert holds their indices by expert and position.
	pairs, sends, byExpert []int
	// lists holds, for each of the device's experts, the received rows for it; comes is the number of rows from
	// each device.
	lists [][]int
	comes []int
	// flow is the number of rows from each device to each.
	flow [][]int
}

func newExpertTraffic(env *Env, o expertsExchange, in []array.Array) *expertTraffic {
	t := &expertTraffic{op: o, group: env.group(o), hosts: hostTeamOf(env, o)}
	shape := in[1].Shape()
	t.perRow = max(1, shape[len(shape)-1])
	choices := readChoices(o, in[1], len(o.Owners))
	counts := t.sort(choices, o.Owners)
	t.receive(t.allCounts(counts), o, in[3].Shape()[0])
	return t
}

// sort orders the pairs and counts them by expert.
func (t *expertTraffic) sort(choices, owners []int) []int64 {
	counts := make([]int64, len(owners))
	for pair, e := range choices {
		if e >= 0 {
			t.pairs = append(t.pairs, pair)
			counts[e]++
		}
	}
	slices.SortStableFunc(t.pairs, func(a, b int) int {
		if x, y := owners[choices[a]], owners[choices[b]]; x != y {
			return x - y
		}
		return choices[a] - choices[b]
	})
	t.byExpert = upTo(len(t.pairs))
	slices.SortStableFunc(t.byExpert, func(a, b int) int { return choices[t.pairs[a]] - choices[t.pairs[b]] })
	n := 1
	if t.group != nil {
		n = t.group.Size()
	}
	t.sends = make([]int, n)
	for _, pair := range t.pairs {
		t.sends[owners[choices[pair]]]++
	}
	return counts
}

// allCounts gathers the number of rows that each device has for each expert, device by device.
func (t *expertTraffic) allCounts(own []int64) []int64 {
	if t.group == nil {
		return own
	}
	all, err := t.group.AllGather(array.Array{}, array.FromSlice(own, 1, len(own)), 0)
	must(t.op, err)
	return array.Data[int64](all)
}

// receive determines which received rows belong to which of the device's n experts.
func (t *expertTraffic) receive(counts []int64, o expertsExchange, n int) {
	t.lists, t.comes = make([][]int, n), make([]int, len(t.sends))
	row, me := 0, position(t.group)
	for from := range t.comes {
		t.flow = append(t.flow, make([]int, len(t.sends)))
		for e, owner := range o.Owners {
			t.flow[from][owner] += int(counts[from*len(o.Owners)+e])
			if owner != me {
				continue
			}
			for range counts[from*len(o.Owners)+e] {
				if i := e - o.Offset; i >= 0 && i < n {
					t.lists[i] = append(t.lists[i], row)
				}
				row++
				t.comes[from]++
			}
		}
	}
}

// gets returns the number of received rows.
func (t *expertTraffic) gets() int { return sum64(t.comes) }

// sendRows sends each pair's row to the owner of its expert, and returns the received rows.
func sendRows[T floats](t *expertTraffic, width int, fill func(pair int, dst []T)) []T {
	rows := make([]T, len(t.pairs)*width)
	for i, pair := range t.pairs {
		fill(pair, rowOf(rows, i, width))
	}
	return exchangeRows(
		t,
		rows,
		len(t.pairs),
		width,
		t.sends,
		func(from, to int) int { return t.flow[from][to] },
	)
}

// returnRows sends the results for received rows back to the devices that sent the rows.
func returnRows[T floats](t *expertTraffic, width int, rows []T) []T {
	return exchangeRows(t, rows, t.gets(), width, t.comes, func(from, to int) int { return t.flow[to][from] })
}

func exchangeRows[T floats](t *expertTraffic, rows []T, n, width int, sizes []int,
	flow func(from, to int) int) []T {
	if t.group == nil {
		return rows
	}
	if t.hosts != nil {
		return array.Data[T](t.hosts.exchange(t.op, array.FromSlice(rows, n, width), sizes, flow))
	}
	got, _, err := t.group.AllToAllV(array.Array{}, array.FromSlice(rows, n, width), sizes)
	must(t.op, err)
	return array.Data[T](got)
}
