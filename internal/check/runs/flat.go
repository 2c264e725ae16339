package runs

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// flatRuns is a file whose rows have only the differences; what they share is in one sentence.
type flatRuns struct {
	Source string    `json:"source"`
	Rows   []flatRun `json:"rows"`
}

// flatRun is a row of such a file.
type flatRun struct {
	ID     string   `json:"id"`
	GPUs   *int     `json:"gpus"`
	Batch  *float64 `json:"global_batch"`
	Micro  *float64 `json:"micro_batch"`
	Hidden *int     `json:"hidden"`
	Heads  *int     `json:"heads"`
	Layers *int     `json:"layers"`
	Seq    *int     `json:"seq_len"`
	Vocab  *int     `json:"vocab"`
	FFN    *int     `json:"ffn"`
	TP     *int     `json:"tp"`
	DP     *int     `json:"dp"`
	PP     *int     `json:"pp"`
	VPP    *int     `json:"vpp"`
	MS     *float64 `json:"step_time_ms"`
	Step   *float64 `json:"step_time_s"`
}

// readFlat parses a file of that kind; ok is false if it is not one.
func readFlat(text []byte) (rows []runRow, ok bool) {
	var f flatRuns
	if json.Unmarshal(text, &f) != nil || len(f.Rows) == 0 || f.Rows[0].Hidden == nil {
		return nil, false
	}
	for _, r := range f.Rows {
		rows = append(rows, r.row(f.Source))
	}
	return rows, true
}

var (
	flatDevices = regexp.MustCompile(`(\d+)x ([A-Z]+\d+[A-Za-z0-9]*)[ -]?(SXM|PCIe)?`)
	flatVocab   = regexp.MustCompile(`vocab (\d+)`)
	flatFFN     = regexp.MustCompile(`ffn (\d+)h`)
)

// row returns the complete run, with what the file's sentence says about all.
func (f *flatRun) row(said string) runRow {
	lower := strings.ToLower(said)
	r := runRow{ID: f.ID, Source: said, Framework: said, Notes: said}
	r.Model = runModel{Layers: f.Layers, Hidden: f.Hidden, Heads: f.Heads, Seq: f.Seq, Vocab: f.Vocab,
		FFN: f.FFN, MLP: "gelu"}
	r.Model.Name = "GPT " + strconv.Itoa(value(f.Hidden)) + "x" + strconv.Itoa(value(f.Layers))
	if m := flatVocab.FindStringSubmatch(lower); m != nil && f.Vocab == nil {
		r.Model.Vocab = number(m[1])
	}
	if m := flatFFN.FindStringSubmatch(lower); m != nil && f.FFN == nil {
		wide := *number(m[1]) * value(f.Hidden)
		r.Model.FFN = &wide
	}
	r.Cluster.GPUs = f.GPUs
	if m := flatDevices.FindStringSubmatch(said); m != nil {
		r.Cluster.PerNode = number(m[1])
		r.Cluster.GPU = strings.TrimSuffix(m[2]+"-"+m[3], "-")
	}
	r.Strategy = runStrategy{DP: f.DP, TP: f.TP, PP: f.PP, VPP: f.VPP, Micro: f.Micro, Batch: f.Batch}
	if strings.Contains(lower, "checkpointing") || strings.Contains(lower, "recompute") {
		full := "full"
		r.Strategy.Recompute = &full
	}
	if strings.Contains(lower, "fp16") {
		r.Precision = "fp16"
	}
	r.Measured.Step = f.Step
	if f.MS != nil {
		s := *f.MS / 1e3
		r.Measured.Step = &s
	}
	return r
}

// number reads digits.
func number(s string) *int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil
	}
	return &n
}
