package epoch

// Local is what an agent knows of itself.
type Local struct {
	Host, ID string
	// Running is the epoch whose workers run here; 0 is none. Told is the last epoch that it has told the end
	// of.
	Running, Told int
	// Leased is whether its lease surely holds.
	Leased bool
}

// Order is what an agent is to do.
type Order int

// The orders.
const (
	Rest   Order = iota
	Start        // the workers of the plan
	Kill         // the workers that run, wait for them, and tell
	HandOn       // ask the workers to end after a step
	Tell         // that no worker of the plan runs here
	Exit         // the job is over
)

// Follow returns what an agent does. An agent whose lease may have ended kills its workers, whatever it sees.
func (v *View) Follow(l Local) Order {
	mine := v.Plan.Of(l.Host, l.ID) != nil
	_, told := v.Ended[l.Host]
	switch {
	case l.Running != 0 && (!l.Leased || v.Done != nil || l.Running != v.Epoch || v.Ending() != ""):
		return Kill
	case v.Done != nil:
		return Exit
	case !l.Leased:
		return Rest
	case l.Running != 0 && v.Stop != nil:
		return HandOn
	case l.Running != 0 || !mine || told:
		return Rest
	case l.Told >= v.Epoch || v.Ending() != "" || v.Stop != nil:
		return Tell
	}
	return Start
}
