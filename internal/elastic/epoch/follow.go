package epoch

// Local is what an agent knows about itself.
type Local struct {
	Host, ID string
	// Running is the epoch whose workers run here; 0 for none. Reported is the last epoch whose end it has
	// reported.
	Running, Reported int
	// Leased is whether its lease is certain to be valid.
	Leased bool
}

// Order is an instruction to an agent.
type Order int

// Orders.
const (
	Rest   Order = iota
	Start        // start the workers of the plan
	Kill         // kill the running workers, wait for them, and report
	HandOn       // ask the workers to end after a step
	Report       // report that no worker of the plan runs here
	Exit         // exit, because the job is over
)

// Follow returns what an agent should do. An agent whose lease may have ended kills its workers in any case.
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
	case l.Reported >= v.Epoch || v.Ending() != "" || v.Stop != nil:
		return Report
	}
	return Start
}
