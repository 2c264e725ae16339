package galley

import "github.com/galley-ml/galley/array"

// state is the parameters and the optimizer's slots of a trainer of one device, from wherever they are.
func (t *Trainer) state() (params, slots []array.Array, err error) {
	if t.remote == nil {
		params, err = t.params()
		return params, t.slots, err
	}
	for _, b := range t.remote.state {
		a, err := b.Read()
		if err != nil {
			return nil, nil, err
		}
		params = append(params, a)
	}
	n := len(t.c.Params)
	return params[:n], params[n:], nil
}

// replace puts an array in the place of one of the state's.
func (r *remote) replace(i int, a array.Array) error {
	b, err := r.b.Put(a)
	if err != nil {
		return err
	}
	r.state[i].Free()
	r.state[i] = b
	return nil
}
