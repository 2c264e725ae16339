package step

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

// TestBuckets: collectives that travel together, of any size of bucket, give the same bits; with a large one
// there are fewer of them, of every kind that a stage of ZeRO has.
func TestBuckets(t *testing.T) {
	for _, x := range []sample{{1, 2, 2, "1f1b", 0}, {1, 4, 1, "1f1b", 1}, {2, 2, 4, "1f1b", 1},
		{1, 2, 3, "1f1b", 2},
		{1, 4, 2, "1f1b", 3}, {2, 2, 3, "zbh1", 2}, {1, 3, 2, "1f1b", 3}} {
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			alone := x.bucketed(t, 1)
			want := trainPlan(t, alone, x.micros)
			for _, bytes := range []int{0, 200, 1 << 20} {
				p := x.bucketed(t, bytes)
				got := trainPlan(t, p, x.micros)
				if !reflect.DeepEqual(got.losses, want.losses) || !reflect.DeepEqual(got.state, want.state) {
					t.Errorf("bucket %d: losses are %v, want %v and the same state", bytes, got.losses, want.losses)
				}
				if n, most := p.Load(0).Collectives, alone.Load(0).Collectives; bytes > 1000 && x.dp != 3 &&
					x.ranks == 1 &&
					x.zero > 0 &&
					n >= most {
					t.Errorf("bucket %d: %d collectives, without buckets %d", bytes, n, most)
				}
				reread(t, p)
			}
		})
	}
}

func (x sample) bucketed(t *testing.T, bytes int) *Plan {
	t.Helper()
	c := x.config(t)
	c.Bucket = bytes
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHosts: collectives within hosts and then between them give the same bits where hosts have a power of
// two of a group's devices, are written in the plan, and send less from one host to another.
func TestHosts(t *testing.T) {
	for _, x := range []sample{{1, 4, 2, "1f1b", 0}, {1, 4, 2, "1f1b", 1}, {1, 4, 2, "1f1b", 2},
		{1, 4, 2, "1f1b", 3},
		{2, 4, 2, "1f1b", 1}} {
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			want := trainPlan(t, x.step(t), x.micros)
			c := x.config(t)
			c.Host, c.Overlap = 2, AutoOverlap
			p, err := New(c)
			if err != nil {
				t.Fatal(err)
			}
			got := trainPlan(t, p, x.micros)
			if !reflect.DeepEqual(got.losses, want.losses) || !reflect.DeepEqual(got.state, want.state) {
				t.Errorf("losses are %v, want %v and the same state", got.losses, want.losses)
			}
			text := p.TapeText(0)
			if !strings.Contains(text, `axes="dp:(2)2"`) || !strings.Contains(text, `axes="dp:(1)2"`) {
				t.Errorf("no collective goes by hosts:\n%s", text)
			}
			reread(t, p)
		})
	}
}

// TestRelay: an exchange goes in two steps where its parts are small, and at once where they are large.
func TestRelay(t *testing.T) {
	m, err := mesh.Parse("x=8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rows, host int
		relayed    bool
	}{{8, 2, true}, {8, 4, true}, {8, 8, false}, {1 << 21, 2, false}, {1 << 14, 4, true}} {
		b := ir.NewBuilder("f")
		x := b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{c.rows, 8}})
		f, err := b.Build(op.AllToAll(x, m, mesh.Axes{{Axis: "x"}}, op.Exchange{Split: 0, Concat: 1}))
		if err != nil {
			t.Fatal(err)
		}
		g, err := hierarchical(f, c.host)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(g.String(), "all_to_all") == 2; got != c.relayed {
			t.Errorf("%d rows, hosts of %d: two steps are %v, want %v:\n%v", c.rows, c.host, got, c.relayed, g)
		}
	}
}

// TestLate: under ZeRO 3 weights are gathered when they are used, so that a forward pass holds fewer of them
// whole than there are; the order of collectives is the same on all devices, which New has checked.
func TestLate(t *testing.T) {
	x := sample{1, 4, 2, "1f1b", 3}
	p := x.bucketed(t, 1)
	text := p.TapeText(0)
	program := text[strings.Index(text, "program 0"):]
	first := strings.Index(program, "= matmul")
	last := strings.LastIndex(program[:strings.Index(program, "return")], "= all_gather")
	if first < 0 || last < first {
		t.Errorf("all weights are gathered before the first product:\n%s", program)
	}
}
