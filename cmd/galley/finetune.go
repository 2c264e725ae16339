package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/galley-ml/galley"
	"github.com/galley-ml/galley/internal/checkpoint"
	"github.com/galley-ml/galley/models"
	"github.com/galley-ml/galley/nn"
)

// finetuneCmd fine-tunes a model on conversations or preferences.
type finetuneCmd struct {
	Dir string `arg:"" help:"Hugging Face directory of the model." type:"existingdir"`
	backendFlags
	Data         []string `help:"JSON Lines: conversations (messages, or prompt and completion), or with --method dpo preferences (prompt, chosen, rejected). May be repeated." sep:"none" required:"" type:"path" placeholder:"FILE"`
	Method       string   `help:"sft learns the answers, dpo to prefer the chosen ones." enum:"sft,dpo" default:"sft"`
	Tokenizer    string   `help:"tokenizer.json; without it that of the model's directory, or bytes." type:"existingfile" placeholder:"FILE"`
	ChatTemplate string   `help:"Jinja file that writes conversations; without it the model's own, or ChatML where it has none." type:"existingfile" placeholder:"FILE"`
	End          string   `help:"Token that ends answers which are texts and not messages." placeholder:"TOKEN"`
	Skip         bool     `help:"Leave out and count lines that cannot be read; without it they are an error."`
	Save         string   `help:"Directory to write to: the adapter in PEFT's form, or with --adapter none or --merge the whole model." type:"path" placeholder:"DIR"`
	Merge        bool     `help:"Write the model with the adapter merged into its weights."`

	Adapter string   `help:"What is trained: lora, dora, or none for all weights." enum:"lora,dora,none" default:"lora"`
	Rank    int      `help:"Rank of the adapter." default:"16"`
	Alpha   float64  `help:"LoRA's alpha: the adapter is scaled by it divided by the rank." default:"32"`
	RSLoRA  bool     `name:"rslora" help:"Divide --alpha by the root of the rank in place of the rank."`
	Drop    float64  `help:"Dropout before the adapter." default:"0"`
	Targets []string `help:"Layers that get an adapter, by the last part of their names, such as q_proj,v_proj; without it all linear layers but head and routers." placeholder:"NAME"`
	Weights string   `help:"What the weights beside an adapter of lora are kept in: floats, or integers of 8 or 4 bits (QLoRA), rounded to the nearest as they are loaded." enum:"float,int8,int4" default:"float"`
	Group   int      `help:"Integers: how many neighbours of a row have one scale." default:"32"`
	Start   string   `help:"PEFT directory of an adapter to go on with, in place of a new one." type:"existingdir" placeholder:"DIR"`

	Epochs  int     `help:"Passes over the data." default:"3"`
	Steps   int     `help:"Training steps, in place of --epochs." placeholder:"N"`
	Batch   int     `help:"Sequences in a step; pairs with --method dpo." default:"8"`
	Seq     int     `help:"Tokens in a sequence." default:"512"`
	Rows    string  `help:"Conversations in a row: packed as many as fit, kept apart by a mask, or padded, one." enum:"packed,padded" default:"packed"`
	LR      float64 `help:"Highest learning rate; it warms up over a twentieth of the steps and falls along a cosine to a tenth. 0 means 2e-4 with an adapter and 1e-5 without; a tenth with --method dpo." default:"0"`
	Decay   float64 `help:"Weight decay." default:"0"`
	Clip    float64 `help:"Limit of the gradients' norm; 0 is none." default:"1"`
	Beta    float64 `help:"Beta of --method dpo: how strongly it stays with the initial model." default:"0.1"`
	Held    float64 `help:"Share of the data to hold out; with --checkpoint the state with the least loss on it is what --save writes." default:"0.05"`
	Seed    uint64  `help:"Seed of the adapter and of the order of the data." default:"1"`
	Threads int     `help:"Threads; 0 means all cores."`
	BF16    bool    `name:"bf16" help:"Compute products in bf16, with f32 parameters and optimizer."`

	ValidEvery int           `help:"Steps between evaluations on held-out data; 0 is after each epoch." placeholder:"STEPS"`
	Log        []string      `help:"File to log every step to, by its name's end: .jsonl or .csv; may be given more than once." sep:"none" type:"path" placeholder:"FILE"`
	Watchdog   time.Duration `help:"Report the op that each device is running if a step makes no progress for this long; 0 is never." default:"5m"`

	optimizerFlags  `group:"Optimizer"`
	strategyFlags   `group:"Devices"`
	checkpointFlags `group:"Checkpoints"`
}

// Help returns the text that galley finetune --help adds.
func (finetuneCmd) Help() string {
	return `Examples:
  galley finetune llama-dir --data chat.jsonl --save adapter                 LoRA on every linear layer
  galley generate adapter --prompt "Hello"                                   the model with it
  galley finetune llama-dir --data chat.jsonl --adapter dora --targets q_proj,v_proj --save adapter
  galley finetune llama-dir --data chat.jsonl --weights int4 --save adapter    beside 4-bit weights (QLoRA)
  galley finetune llama-dir --data chat.jsonl --adapter none --mesh dp=2 --zero 3 --save out
  galley finetune llama-dir --start adapter --method dpo --data pairs.jsonl --save preferred
  galley finetune llama-dir --data chat.jsonl --checkpoint run --valid-every 50 --merge --save out
A line of the data is {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}
or {"prompt": "…", "completion": "…"}; for preferences {"prompt": …, "chosen": …, "rejected": …}, each a text
or messages. Only the assistant's words are learned. Conversations are written by the model's own chat
template, or as ChatML where it has none.`
}

func (c *finetuneCmd) Run() error {
	if err := c.validate(); err != nil {
		return err
	}
	d := galley.CPU(galley.Config{Threads: c.Threads})
	defer d.Close()
	f := &finetuning{c: c, training: &training{trainCmd: c.train(), d: d}}
	var err error
	if f.b, err = c.open(); err != nil {
		return err
	}
	return closed(f.b, f.run())
}

// train returns the flags as those of galley train, which shares the training code.
func (c *finetuneCmd) train() *trainCmd {
	t := &trainCmd{
		backendFlags:    c.backendFlags,
		Model:           c.Dir,
		Tokenizer:       c.Tokenizer,
		Save:            c.Save,
		Steps:           c.Steps,
		Batch:           c.Batch,
		Seq:             c.Seq,
		LR:              c.LR,
		Decay:           c.Decay,
		Clip:            c.Clip,
		Seed:            c.Seed,
		Threads:         c.Threads,
		BF16:            c.BF16,
		ValidEvery:      c.ValidEvery,
		Log:             c.Log,
		Watchdog:        c.Watchdog,
		optimizerFlags:  c.optimizerFlags,
		strategyFlags:   c.strategyFlags,
		checkpointFlags: c.checkpointFlags,
	}
	if t.LR == 0 {
		t.LR = 2e-4
		if c.Adapter == "none" {
			t.LR = 1e-5
		}
		if c.Method == "dpo" {
			t.LR /= 10
		}
	}
	return t
}

func (c *finetuneCmd) validate() error {
	err := positive(map[string]int{"epochs": c.Epochs, "batch": c.Batch, "seq": c.Seq, "rank": c.Rank})
	if err == nil {
		err = natural(map[string]int{"steps": c.Steps, "threads": c.Threads, "valid-every": c.ValidEvery})
	}
	if err == nil {
		err = between(
			0,
			math.Inf(1),
			map[string]float64{"lr": c.LR, "decay": c.Decay, "clip": c.Clip, "beta": c.Beta,
				"alpha": c.Alpha},
		)
	}
	if err == nil {
		err = between(0, 0.999, map[string]float64{"held": c.Held, "drop": c.Drop})
	}
	if err == nil {
		err = c.validateOptimizer()
	}
	if err == nil {
		err = c.validateCheckpoints()
	}
	for _, path := range c.Log {
		if _, e := logFormat(path); err == nil {
			err = e
		}
	}
	if err == nil {
		_, err = c.strategy()
	}
	if err == nil && c.Save != "" {
		if e := writable(c.Save); e != nil {
			err = fmt.Errorf("--save: %w", e)
		}
	}
	switch {
	case err != nil:
		return err
	case c.Adapter == "none" && (c.Start != "" || len(c.Targets) > 0 || c.Merge || c.RSLoRA || c.Drop > 0):
		return errors.New("--start, --targets, --merge, --rslora, --drop: they are for an adapter, " +
			"and --adapter is none")
	case c.Start != "" && (len(c.Targets) > 0 || c.RSLoRA):
		return fmt.Errorf("--start=%s: the adapter says its --targets and --rslora itself", c.Start)
	case c.Weights != "float" && (c.Adapter != "lora" || c.Merge):
		return fmt.Errorf("--weights=%s: integers are not trained nor merged into: want --adapter lora without "+
			"--merge", c.Weights)
	case c.Weights != "float" && c.Group < 2:
		return fmt.Errorf("--group=%d: want 2 or more", c.Group)
	case c.Merge && c.Save == "":
		return errors.New("--merge: it is for --save DIR")
	}
	return nil
}

// finetuning is one run of the command.
type finetuning struct {
	*training
	c *finetuneCmd
}

// run fine-tunes: everything between checking the flags and printing the summary.
func (f *finetuning) run() error {
	if err := f.prepare(); err != nil {
		return err
	}
	if err := f.train(); err != nil {
		return err
	}
	if err := f.best(); err != nil {
		return err
	}
	if err := f.save(); err != nil {
		return err
	}
	if f.stopped != nil {
		return f.stopped
	}
	return nil
}

// prepare loads the model and the data.
func (f *finetuning) prepare() (err error) {
	config, err := models.ReadConfig(f.c.Dir)
	if err != nil {
		return err
	}
	if f.tokenizer, err = openTokenizer(f.c.Tokenizer, f.c.Dir); err != nil {
		return err
	}
	if err := longEnough(config, f.Seq); err != nil {
		return err
	}
	per := 16.0 // bytes: parameter, gradient and two moments
	if f.c.Adapter != "none" {
		per = 12
	}
	if err := fits("fine-tuning", per*parameters(config)); err != nil {
		return err
	}
	in := nn.Config{Scope: f.d.NewSession(), Seed: f.Seed}
	if f.model, err = models.LoadAhead(f.c.Dir, f.ahead(), in); err != nil {
		return err
	}
	f.tokenizer.note(f.c.Dir, config.Vocab)
	// The reference of preferences is the model before the new adapter, which does not change it yet.
	if err := f.adapt(in); err != nil {
		return err
	}
	if err := f.read(config.Vocab); err != nil {
		return err
	}
	f.introduce()
	return nil
}

// adapt adds an adapter to the model, unless all weights are trained.
func (f *finetuning) adapt(in nn.Config) error {
	c := f.c
	if c.Adapter == "none" {
		return nil
	}
	if bits := map[string]int{"int8": 8, "int4": 4}[c.Weights]; bits > 0 {
		if err := models.QuantizeLayers(f.model, bits, c.Group, in); err != nil {
			return err
		}
	}
	if c.Start != "" {
		return models.LoadAdapter(c.Start, f.model, in)
	}
	return models.Adapt(f.model, models.AdapterConfig{Rank: c.Rank, Alpha: c.Alpha, DoRA: c.Adapter == "dora",
		RankStabilized: c.RSLoRA, Dropout: c.Drop, Targets: c.Targets}, in)
}

func (f *finetuning) introduce() {
	all, trained := 0, 0
	for _, p := range f.model.Params() {
		all += p.Type.Shape.Len()
		if !p.Fixed {
			trained += p.Type.Shape.Len()
		}
	}
	f.more = append(f.more, galley.Fact{Name: "finetune", Value: f.describe()})
	fmt.Printf(
		"%s, %.2fM parameters, of which %.2fM are trained (%s), %d steps of %d×%d tokens, learning rate %.3g\n",
		f.model.Config().Family,
		float64(all)/1e6,
		float64(trained)/1e6,
		f.describe(),
		f.Steps,
		f.Batch,
		f.Seq,
		f.LR,
	)
	if f.Save == "" && f.Checkpoint == "" {
		fmt.Fprintln(os.Stderr, "galley: note: nothing will be kept: --save DIR writes it")
	}
}

// describe returns the method and what is trained, as text.
func (f *finetuning) describe() string {
	a, ok := models.Adapted(f.model)
	if !ok {
		return f.c.Method + ", all weights"
	}
	kind := "lora"
	if a.DoRA {
		kind = "dora"
	}
	beside := ""
	if f.c.Weights != "float" {
		beside = fmt.Sprintf(" beside %s in groups of %d", f.c.Weights, f.c.Group)
	}
	return fmt.Sprintf("%s, %s of rank %d, alpha %g%s", f.c.Method, kind, a.Rank, a.Alpha, beside)
}

// best loads the checkpoint with the least held-out loss, if there are checkpoints.
func (f *finetuning) best() error {
	if f.Checkpoint == "" || f.eval == nil || f.stopped != nil {
		return nil
	}
	r, err := checkpoint.OpenBest(f.Checkpoint, "valid_loss", checkpoint.OpenConfig{})
	if err != nil {
		return err
	}
	defer r.Close()
	if int(r.Meta().Step) == f.Steps {
		return nil
	}
	s := f.d.NewSession()
	for _, p := range f.model.Params() {
		a, err := r.ReadWhole(p.Name)
		if err != nil {
			return err
		}
		p.Value = s.Tensor(a).Track()
	}
	fmt.Printf("taking the state after %d steps, whose held-out loss is the least\n", r.Meta().Step)
	return nil
}

// save writes the adapter or the model.
func (f *finetuning) save() error {
	if f.Save == "" {
		return nil
	}
	_, adapted := models.Adapted(f.model)
	if adapted && !f.c.Merge {
		if err := models.SaveAdapter(f.Save, f.model, models.AdapterFiles{Base: f.c.Dir}); err != nil {
			return err
		}
		fmt.Printf("the adapter is in %s: galley generate %[1]s uses it with %s\n", f.Save, f.c.Dir)
		return nil
	}
	if adapted {
		if err := models.Merge(f.model); err != nil {
			return err
		}
	}
	if err := models.Save(f.Save, f.model, models.SaveConfig{Tokenizer: f.tokenizer.text}); err != nil {
		return err
	}
	if err := keepChatTemplate(f.Save, f.c.Dir, f.c.ChatTemplate); err != nil {
		return err
	}
	fmt.Printf("the model is in %s: galley generate %[1]s continues texts with it\n", f.Save)
	return nil
}
