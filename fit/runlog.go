package fit

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// LogRow is a row of a run's log. Step counts from 1. Values that a row does not have are NaN.
type LogRow struct {
	Step                     int
	Loss, GradNorm, LR       float64
	ValidLoss                float64
	Tokens                   int64
	Seconds, DataWaitSeconds float64
	// Routers, if set, describes the load of the experts in a step or evaluation.
	Routers *RouterLog
	// Collectives has the traffic and time of the step's collectives; only JSONL logs have it.
	Collectives []CollectiveLog
}

// CollectiveLog aggregates the collectives of one kind along some axes, or of one group if it is named: bytes
// sent and received, seconds from start to end summed over devices, and the seconds that devices waited.
type CollectiveLog struct {
	Axes        string  `json:"axes"`
	Kind        string  `json:"kind"`
	Group       string  `json:"group,omitempty"`
	Calls       int     `json:"calls"`
	Bytes       int     `json:"bytes"`
	Seconds     float64 `json:"seconds"`
	WaitSeconds float64 `json:"wait_seconds"`
}

// RouterLog aggregates all routers of a model: the load of the busiest and the idlest expert as multiples of
// the even share, the mean entropy of loads relative to its maximum, the fraction of dropped choices, and the
// balance that a router loss weighs. Loads has the share of each expert per router; only JSONL logs have it.
type RouterLog struct {
	Busiest, Idlest, Entropy, Dropped, Balance float64
	Loads                                      [][]float64
}

// NewLogRow returns the row of a step's metrics.
func NewLogRow(m Metrics) LogRow {
	nan := math.NaN()
	return LogRow{Step: m.Step + 1, Loss: m.Loss, GradNorm: m.GradNorm, LR: m.LR, ValidLoss: nan,
		Seconds: nan, DataWaitSeconds: m.Wait.Seconds()}
}

// RunLog is a Callback that writes a row for every step and every evaluation as JSONL or CSV.
type RunLog struct {
	CallbackBase
	w       io.Writer
	columns bool // CSV
	headed  bool
}

// NewRunLog creates a log in the format jsonl or csv. A log that is appended to already has its header.
func NewRunLog(w io.Writer, format string, goesOn bool) (*RunLog, error) {
	if format != "jsonl" && format != "csv" {
		return nil, fmt.Errorf("log: format %q: want jsonl or csv", format)
	}
	return &RunLog{w: w, columns: format == "csv", headed: goesOn}, nil
}

// logColumns has the column names in the order of a row's values.
var logColumns = []string{"step", "loss", "grad_norm", "lr", "valid_loss", "tokens", "seconds",
	"data_wait_seconds", "router_busiest", "router_idlest", "router_entropy", "router_dropped",
	"router_balance"}

func (r LogRow) values() []float64 {
	nan := math.NaN()
	x := RouterLog{Busiest: nan, Idlest: nan, Entropy: nan, Dropped: nan, Balance: nan}
	if r.Routers != nil {
		x = *r.Routers
	}
	return []float64{float64(r.Step), r.Loss, r.GradNorm, r.LR, r.ValidLoss, float64(r.Tokens), r.Seconds,
		r.DataWaitSeconds, x.Busiest, x.Idlest, x.Entropy, x.Dropped, x.Balance}
}

// Write appends a row in a single write, so that a killed run leaves whole lines.
func (l *RunLog) Write(r LogRow) error {
	if l.columns {
		return l.writeColumns(r)
	}
	line := []byte{'{'}
	for i, x := range r.values() {
		if math.IsNaN(x) || i > 0 && logColumns[i] == "tokens" && x == 0 {
			continue
		}
		if len(line) > 1 {
			line = append(line, ',')
		}
		line = strconv.AppendQuote(line, logColumns[i])
		line = append(append(line, ':'), jsonNumber(x)...)
	}
	if r.Routers != nil {
		loads, err := json.Marshal(r.Routers.Loads)
		if err != nil {
			return err
		}
		line = append(append(line, `,"router_loads":`...), loads...)
	}
	if len(r.Collectives) > 0 {
		list, err := json.Marshal(r.Collectives)
		if err != nil {
			return err
		}
		line = append(append(line, `,"collectives":`...), list...)
	}
	_, err := l.w.Write(append(line, "}\n"...))
	return err
}

// jsonNumber returns a number as JSON; infinities, which JSON lacks, become strings.
func jsonNumber(x float64) []byte {
	b, err := json.Marshal(x)
	if err != nil {
		b = strconv.AppendQuote(nil, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return b
}

func (l *RunLog) writeColumns(r LogRow) error {
	w := csv.NewWriter(l.w) // it writes only when it is flushed
	if !l.headed {
		l.headed = true
		if err := w.Write(logColumns); err != nil {
			return err
		}
	}
	row := make([]string, len(logColumns))
	for i, x := range r.values() {
		if !math.IsNaN(x) {
			row[i] = strconv.FormatFloat(x, 'g', -1, 64)
		}
	}
	if err := w.Write(row); err != nil {
		return err
	}
	w.Flush()
	return w.Error()
}

// OnStep writes a row for the step.
func (l *RunLog) OnStep(p *Progress) error { return l.Write(NewLogRow(p.Metrics)) }

// OnEvaluate writes a row for the evaluation.
func (l *RunLog) OnEvaluate(p *Progress) error {
	nan := math.NaN()
	return l.Write(LogRow{Step: p.Step, Loss: nan, GradNorm: nan, LR: nan, ValidLoss: p.Evaluation.Loss,
		Seconds: nan, DataWaitSeconds: nan})
}
