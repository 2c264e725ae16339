package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/galley-ml/galley/internal/cluster"
	"github.com/galley-ml/galley/internal/dryrun"
	"github.com/galley-ml/galley/internal/export"
	"github.com/galley-ml/galley/internal/forecast"
	"github.com/galley-ml/galley/internal/plan"
	"github.com/galley-ml/galley/internal/planfile"
	"github.com/galley-ml/galley/internal/search"
	"github.com/galley-ml/galley/internal/strict"
	"github.com/galley-ml/galley/models"
)

// planCmd searches the best strategy for a training run on a cluster.
type planCmd struct {
	Model   string `arg:"" optional:"" help:"Preset, Hugging Face config.json, or a directory that has one."`
	Cluster string `arg:"" optional:"" help:"One line like '8x8 H100-SXM ib=400G', or a YAML file."`

	Batch       int      `help:"Sequences in a step; 0 is about four million tokens." default:"0"`
	Seq         int      `help:"Tokens in a sequence; 0 is 4096, or as many as the model has learned positions for." default:"0"`
	Precision   string   `help:"Format of products: bf16, fp16, fp32, tf32, fp8, mxfp8 or nvfp4." default:"bf16"`
	Top         int      `help:"Plans to show, each of another division of the devices." default:"5"`
	Explain     bool     `help:"Show the time, memory and stages of every plan in parts."`
	Pin         string   `help:"Settings that every plan must have, such as 'tp=4 zero=1'." placeholder:"WORDS"`
	WhatIf      []string `help:"Compare the best plan with the best that has these settings: 'tp=4' or 'pp=2 zero=1'. May be repeated." placeholder:"WORDS" sep:"none"`
	Compare     string   `help:"Say how two plan files differ; the second is the next argument." placeholder:"FILE FILE"`
	Calibration string   `help:"File of galley calibrate; without it, built-in figures for such devices." placeholder:"FILE"`
	Tapes       bool     `help:"With --output, build the tapes of all devices also where that takes long: their memory to the byte is written for plans of up to 128 layers times devices anyway."`
	Output      string   `short:"o" help:"Write the best plan as a file, for galley simulate and galley train." placeholder:"FILE"`
	Export      string   `help:"Print the best plan as the flags or config of another system: ${systems}; or where its processes run: mpirun, slurm." placeholder:"SYSTEM"`
	JSON        bool     `name:"json" help:"Print JSON."`

	Probe     bool          `help:"Run the best plans for some steps each on devices of this process, or of those that galley launch started, and take the fastest." group:"Probing"`
	Devices   int           `help:"Devices to probe on; 0 is one for each process." group:"Probing"`
	ProbeTime time.Duration `help:"How long probing may take." default:"1m" group:"Probing"`
	ProbeAll  bool          `help:"Go on measuring plans that are clearly slower, for as long as there is time." group:"Probing"`
	Learned   string        `help:"File to write the calibration from probing to." default:"probed.yaml" type:"path" group:"Probing"`
}

// Help returns the text that galley plan --help adds.
func (planCmd) Help() string {
	return `The search covers data, tensor, sequence, context, expert and pipeline parallelism, chunks and
schedules, ZeRO over all replicas or those of a host, micro-batches, recomputation layer by layer, and state
in the hosts' memory. On clusters of equal hosts the first plan is the best there is under the cost model:
every other division of the devices was priced, or has a bound above it. On mixed clusters the gap is printed.

A row is the best plan of one division: seconds of a step with the interval that they should lie in, the part
of the peak that the model's own operations make up, the memory of the device that needs the most,
communication that nothing hides, and waiting. Below it stands what each plan loses to the first.

Presets: ` + strings.Join(
		plan.ModelPresets(),
		", ",
	) + `.

Examples:
  galley plan llama-3-8b '8x8 H100-SXM ib=400G'
  galley plan llama-3-405b '2048x8 H100-SXM ib=400G' --seq 8192 --batch 2048 --what-if 'tp=8 pp=16'
  galley plan ./my-model cluster.yaml -o plan.yaml           any config.json of the Hub, a cluster in YAML
  galley plan mixtral-8x7b '4x8 A100 ib=200G' --export megatron
  galley plan --compare a.yaml b.yaml
  galley plan ./my-model --probe --devices 4 --batch 16 --seq 128 -o plan.yaml     measured on devices of this process
  galley launch -n 2 -- plan ./my-model --probe --batch 16 --seq 128 -o plan.yaml  … of two processes`
}

func (c *planCmd) Run() error {
	if c.Compare != "" {
		return c.compare()
	}
	if c.Probe {
		return c.probe()
	}
	if job != nil && job.Size() > 1 {
		return errors.New(
			"galley plan is for one process, unless it probes: run it without galley launch, or with --probe",
		)
	}
	r, err := c.request()
	if err != nil {
		return err
	}
	cal, err := readCalibration(c.Calibration, r.Cluster, r.Workload)
	if err != nil {
		return err
	}
	start := time.Now()
	found, err := c.find(r, cal)
	if err != nil {
		return err
	}
	a := found.Answer
	report := &planReport{workload: r.Workload, cluster: r.Cluster, answer: a, took: time.Since(start),
		explain: c.Explain, calibration: cal}
	for _, text := range c.WhatIf {
		if err := report.whatIf(r, text); err != nil {
			return err
		}
	}
	if c.Output != "" {
		if err := found.File.Save(c.Output); err != nil {
			return err
		}
	}
	switch {
	case c.JSON:
		return report.writeJSON(os.Stdout)
	case c.Export != "":
		return c.export(r, a)
	}
	return report.write(os.Stdout)
}

// request returns the flags as a search configuration.
func (c *planCmd) request() (search.Config, error) {
	if c.Model == "" || c.Cluster == "" {
		return search.Config{}, errors.New(
			"want a model and a cluster: galley plan llama-3-8b '8x8 H100-SXM ib=400G'",
		)
	}
	if err := positive(map[string]int{"top": c.Top}); err != nil {
		return search.Config{}, err
	}
	if err := natural(map[string]int{"batch": c.Batch, "seq": c.Seq}); err != nil {
		return search.Config{}, err
	}
	if c.Export != "" && !export.Knows(c.Export) && !export.Places(c.Export) {
		return search.Config{}, fmt.Errorf("--export=%s: want one of %s", c.Export,
			strings.Join(append(export.Systems(), export.Launchers()...), ", "))
	}
	m, err := readModel(c.Model)
	if err != nil {
		return search.Config{}, err
	}
	hw, err := readCluster(c.Cluster)
	if err != nil {
		return search.Config{}, err
	}
	w := plan.Workload{Model: m, Batch: c.Batch, Seq: usualSeq(c.Seq, m.MostTokens()), Precision: c.Precision}
	if w.Batch == 0 {
		w.Batch = usualBatch(hw.Size(), w.Seq)
	}
	pin, err := search.ParsePin(c.Pin)
	if err != nil {
		return search.Config{}, fmt.Errorf("--pin: %w", err)
	}
	return search.Config{Workload: w, Cluster: hw, Pin: pin, Top: c.Top,
		Workers: min(runtime.GOMAXPROCS(0), 8)}, w.Check()
}

// usualSeq returns asked, or by default 4096 tokens, at most as many as the model has learned positions.
func usualSeq(asked, most int) int {
	if asked > 0 {
		return asked
	}
	if most > 0 {
		return min(4096, most)
	}
	return 4096
}

// usualBatch returns a batch of about four million tokens, and no fewer sequences than an eighth of the
// devices, rounded up to a power of two.
func usualBatch(devices, seq int) int {
	batch := 1
	for batch*seq < 1<<22 || batch*8 < devices {
		batch *= 2
	}
	return batch
}

// readModel reads a model by path, or else by preset name.
func readModel(name string) (plan.Model, error) {
	path, ok := configPath(name)
	if !ok {
		return plan.ModelPreset(name)
	}
	text, err := strict.ReadFile(path, strict.Config)
	if err != nil {
		return plan.Model{}, fmt.Errorf("model: %w", err)
	}
	return forecast.ReadModel(
		filepath.Base(strings.TrimSuffix(strings.TrimSuffix(path, "config.json"), "/")),
		text,
	)
}

// readCluster reads a cluster from a file, or else parses the text itself.
func readCluster(text string) (*cluster.Cluster, error) {
	ext := filepath.Ext(text)
	if _, err := os.Stat(text); err != nil && ext != ".yaml" && ext != ".yml" {
		return cluster.Parse(text)
	}
	content, err := strict.ReadFile(text, strict.Config)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c, err := cluster.Parse(string(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return c, nil
}

// readCalibration reads a file, or else returns the default calibration of the cluster's devices.
func readCalibration(path string, c *cluster.Cluster, w plan.Workload) (plan.Calibration, error) {
	if path == "" {
		return plan.Default(c, w), nil
	}
	text, err := strict.ReadFile(path, strict.Config)
	if err != nil {
		return plan.Calibration{}, fmt.Errorf("--calibration: %w", err)
	}
	cal, err := plan.ParseCalibration(text)
	if err != nil {
		return plan.Calibration{}, fmt.Errorf("--calibration: %s: %w", path, err)
	}
	return cal, nil
}

// tapedMost is the most layers times devices for which tapes are built by default: it takes seconds.
const tapedMost = 128

// find returns the best plan that fits, and prints those left out because their tapes do not fit.
func (c *planCmd) find(r search.Config, cal plan.Calibration) (*dryrun.Found, error) {
	config, err := modelConfig(c.Model)
	most := tapedMost
	if err != nil && !c.Tapes { // not a model that Galley can run: no tapes
		most = -1
	} else if err != nil {
		return nil, fmt.Errorf("--tapes: %w", err)
	}
	found, err := dryrun.Find(dryrun.FindConfig{Config: r, Calibration: cal, Model: config, Most: most,
		Tapes: c.Tapes})
	if err != nil {
		return nil, err
	}
	if found.Misfit != nil {
		return nil, found.Misfit
	}
	for _, text := range found.Left {
		fmt.Fprintln(os.Stderr, "left out:", text)
	}
	return found, nil
}

// modelConfig returns the configuration of a model given by path; empty for a preset.
func modelConfig(name string) (models.Config, error) {
	path, ok := configPath(name)
	if !ok {
		return models.Config{}, nil
	}
	text, err := strict.ReadFile(path, strict.Config)
	if err != nil {
		return models.Config{}, err
	}
	return models.ParseConfig(text)
}

// configPath returns the path of config.json if the model is given by a path.
func configPath(name string) (string, bool) {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return filepath.Join(name, "config.json"), true
	} else if err != nil && !strings.HasSuffix(name, ".json") && !isPath.MatchString(name) {
		return "", false
	}
	return name, true
}

// isPath matches the beginning of a path, which no preset's name has.
var isPath = regexp.MustCompile(`^(\.{0,2}/|~)`)

func (c *planCmd) export(r search.Config, a *search.Answer) error {
	var text string
	var err error
	if export.Places(c.Export) {
		var order []int
		if a.Mapping != nil {
			order = a.Mapping.Devices
		}
		text, err = export.Ranks(c.Export, a.Cluster, order)
	} else {
		text, err = export.Write(c.Export, r.Workload, a.Plans[0].Strategy, a.Cluster)
	}
	if err != nil {
		return err
	}
	_, err = os.Stdout.WriteString(text)
	return err
}

// compare prints how two plan files differ.
func (c *planCmd) compare() error {
	if c.Model == "" || c.Cluster != "" {
		return errors.New("--compare: want two files: galley plan --compare a.yaml b.yaml")
	}
	a, err := planfile.Load(c.Compare)
	if err != nil {
		return err
	}
	b, err := planfile.Load(c.Model)
	if err != nil {
		return err
	}
	return writeComparison(os.Stdout, [2]string{c.Compare, c.Model}, [2]*planfile.File{a, b})
}
