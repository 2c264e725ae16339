package check

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/galley-ml/galley/internal/auto"
	"github.com/galley-ml/galley/internal/executor"
	"github.com/galley-ml/galley/internal/executor/tapes"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/nn"
	"github.com/galley-ml/galley/optim"
)

func TestScratch(t *testing.T) {
	text, _ := os.ReadFile("/tmp/auto-here.yaml")
	cal, err := plan.ParseCalibration(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range AutoPrograms() {
		in := nn.NewInit(nn.Config{})
		loss := p.Build(in)
		c := auto.Config{Run: executor.Config{Params: in.Params(), Loss: loss, Optimizer: optim.AdamW{}}, Batch: p.Batch,
			Machine: auto.Cores(cal.Host, 4, 2, 1e9), Plan: tapes.Plan}
		n, err := auto.Count(c)
		start := time.Now()
		x, err2 := auto.Find(c)
		if err2 != nil {
			fmt.Println(p.Name, n, err, err2)
			continue
		}
		took := time.Since(start)
		fmt.Println("==", p.Name, "space", n, "took", took, took/time.Duration(x.Priced))
		fmt.Println(x)
	}
}
