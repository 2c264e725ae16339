package auto

import (
	"fmt"
	"strings"

	"github.com/galley-ml/galley/internal/units"
)

// misfit reports the memory of the plan that needs the least.
func (f *finder) misfit() error {
	return fmt.Errorf(
		"auto: no plan for %s fits: the one that needs least, %s, takes %s of a device: it has %s: want more "+
			"devices, or a smaller batch",
		f.c.Machine.Name,
		f.best.Strategy,
		units.Bytes(f.best.Peak),
		units.Bytes(f.c.Machine.Memory),
	)
}

// String returns the choice, its distance from the best, what is split, and why others lose.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(
		&b,
		"chose %s for %s: a step should take %s, each device at most %s\n",
		p.Strategy,
		p.machine.Name,
		units.Seconds(p.Seconds),
		units.Bytes(p.Peak),
	)
	fmt.Fprintf(
		&b,
		"priced %d steps on %d meshes; none can take less than %s, by what ops compute alone: at most %.1f%% "+
			"from the best\n",
		p.Priced,
		p.Meshes,
		units.Seconds(p.Bound),
		100*p.Gap(),
	)
	if s := p.Shards; s != nil {
		fmt.Fprintf(
			&b,
			"shardings: searched %d ops and values with %d ways, at most %.1f%% from the best\n",
			s.Variables,
			s.Labels,
			100*s.Gap,
		)
	}
	for _, line := range append(p.Split(), p.Idle()...) {
		fmt.Fprintln(&b, line)
	}
	for _, o := range p.Others[:min(3, len(p.Others))] {
		fmt.Fprintf(&b, "  %s: %s\n", o.Strategy, p.why(o))
	}
	if p.machine.Usual {
		fmt.Fprintf(
			&b,
			"these times are uncalibrated, of a usual machine: galley calibrate --devices %d -o here.yaml measures "+
				"this one\n",
			p.machine.Devices,
		)
	}
	return b.String()
}

// Split returns a line for each weight and each tensor of the batch that the tensor axis splits.
func (p *Plan) Split() []string {
	var list []string
	for i, s := range p.Weights {
		if len(s.Used()) > 0 {
			list = append(list, fmt.Sprintf("  %s %s", p.config.Run.Params[i].Name, s))
		}
	}
	for i, s := range p.Inputs {
		if len(s.Used()) > 0 {
			list = append(list, fmt.Sprintf("  batch tensor %d %s, besides its rows by dp", i, s))
		}
	}
	return list
}

// Idle returns the parts of the machine that do nothing of their own.
func (p *Plan) Idle() []string {
	var list []string
	if used, all := p.Devices, p.machine.Devices; used < all {
		list = append(
			list,
			fmt.Sprintf("%d of %d devices are idle: with more of them a step takes longer", all-used, all),
		)
	}
	if p.Strategy.TP > 1 && !p.splits() {
		list = append(
			list,
			fmt.Sprintf("axis tp is idle: it splits nothing, its %d devices compute the same", p.Strategy.TP),
		)
	}
	return list
}

// why returns the reason why another candidate loses.
func (p *Plan) why(o Other) string {
	switch {
	case o.Err != nil:
		return o.Err.Error()
	case p.machine.Memory > 0 && o.Peak > p.machine.Memory:
		return fmt.Sprintf("takes %s of a device, which has %s", units.Bytes(o.Peak), units.Bytes(p.machine.Memory))
	}
	if o.Seconds < p.Seconds {
		return fmt.Sprintf("%s, %.2f times as long, which is less than prices can tell: data parallelism stays",
			units.Seconds(o.Seconds), o.Seconds/p.Seconds)
	}
	return fmt.Sprintf("%s, %.2f times as long: %s of work in place of %s, %s of waiting in place of %s",
		units.Seconds(o.Seconds), o.Seconds/p.Seconds, units.Seconds(o.Work), units.Seconds(p.Work),
		units.Seconds(o.Waiting), units.Seconds(p.Waiting))
}
