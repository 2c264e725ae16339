package plan_test

import (
	"math"
	"testing"

	"github.com/galley-ml/galley/array"
	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/ir"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/mesh"
	"github.com/galley-ml/galley/op"
)

func chips(t *testing.T, text string) (*plan.Chips, *cluster.Cluster) {
	t.Helper()
	hw, err := cluster.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := plan.NewChips(hw, plan.Calibration{}, "fp32")
	if err != nil {
		t.Fatal(err)
	}
	return c, hw.Filled()
}

// TestChips: products take longer than their operations at the peak, collectives what the cluster says of
// their groups, and those across hosts longer than those within one.
func TestChips(t *testing.T) {
	c, hw := chips(t, "2x4 A100-SXM-80GB ib=200G")
	b := ir.NewBuilder("f")
	x := b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{1024, 1024}})
	rate, _ := hw.Groups[0].Device.Rate("fp32")
	least := 2 * math.Pow(1024, 3) / rate.Peak
	if got := c.Node(op.MatMul(x, x).Node(), 1); got < least || got > 20*least {
		t.Errorf("a product takes %g s, at the peak %g s", got, least)
	}
	m, err := mesh.Parse("dp=2,tp=4")
	if err != nil {
		t.Fatal(err)
	}
	sum := func(axis string) float64 { return c.Node(op.AllReduce(x, m, mesh.On(axis), mesh.Sum).Node(), 1) }
	inside := hw.Collective(cluster.AllReduce, 4<<20, cluster.Axis{Size: 4, Stride: 1}).Seconds
	across := hw.Collective(cluster.AllReduce, 4<<20, cluster.Axis{Size: 2, Stride: 4}).Seconds
	if sum("tp") != inside || sum("dp") != across || across <= inside {
		t.Errorf("sums take %g s within a host and %g s across, want %g and %g", sum("tp"), sum("dp"), inside,
			across)
	}
	near := c.Deliver(1 << 20)
	c.Apart = 4
	if far := c.Deliver(1 << 20); far <= near {
		t.Errorf("a message to the next host takes %g s, within the host %g s", far, near)
	}
	if _, err := plan.NewChips(hw, plan.Calibration{}, "int1"); err == nil {
		t.Error("a precision that there is not")
	}
}

// TestHostBeyond: where only an op that does next to nothing was measured, more work takes what is usual for
// it, and not as many times the time of starting.
func TestHostBeyond(t *testing.T) {
	h := plan.UsualHost(2)
	h.Ops = []plan.HostOp{{Op: "neg",
		One: plan.HostTimes{Points: []plan.HostPoint{{Bytes: 4, Seconds: 1.5e-6}}}}}
	b := ir.NewBuilder("f")
	n := op.Neg(b.Param("x", ir.Type{DType: array.F32, Shape: array.Shape{1 << 16}})).Node()
	if got, usual := h.Node(n, 1), 1.5e-6+h.Start+2*4*(1<<16)/h.Stream; math.Abs(got-usual) > 0.5*usual {
		t.Errorf("65536 elements take %g s, want about %g s", got, usual)
	}
}
