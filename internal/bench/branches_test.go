package bench

import "testing"

// TestBranches: attention and the MLP of parallel blocks on two devices have the losses of one device.
func TestBranches(t *testing.T) {
	r, err := Branches(BranchesConfig{Hidden: 32, Layers: 2, Seq: 8, Steps: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Same || !(r.OneMS > 0 && r.TwoMS > 0 && r.PredictedMS > 0) {
		t.Errorf("got %s", r)
	}
}
