package process

import (
	"bytes"
	"context"
	"fmt"
)

// value is what a key stands for.
type value struct {
	data []byte
	set  chan struct{} // closed when there is data
}

// valueAt returns the value of a key, made by whoever asks or gives first. p.mu is held.
func (p *Process) valueAt(key string) *value {
	v := p.values[key]
	if v == nil {
		v = &value{set: make(chan struct{})}
		p.values[key] = v
	}
	return v
}

// Put gives all processes a value for a key, once: a value of another kind for the same key is an error here.
// Notes of two processes may cross, so that keys belong to one process each.
func (p *Process) Put(key string, data []byte) error {
	if err := p.keep(key, data); err != nil {
		return err
	}
	p.postAll(append(appendString(header(putNote, 0, 0), key), data...))
	return nil
}

// keep notes a value.
func (p *Process) keep(key string, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.valueAt(key)
	select {
	case <-v.set:
		if !bytes.Equal(v.data, data) {
			return fmt.Errorf("key %q has a value already", key)
		}
	default:
		v.data = append([]byte{}, data...)
		close(v.set)
	}
	return nil
}

// TryGet returns the value of a key, if it is here.
func (p *Process) TryGet(key string) ([]byte, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.values[key]
	if v == nil {
		return nil, false
	}
	select {
	case <-v.set:
		return v.data, true
	default:
		return nil, false
	}
}

// Get returns the value of a key, once some process has put it: until then it waits, as long as the context
// lasts and no process is lost.
func (p *Process) Get(ctx context.Context, key string) ([]byte, error) {
	p.mu.Lock()
	set := p.valueAt(key).set
	p.mu.Unlock()
	either := make(chan struct{})
	go func() {
		defer close(either)
		select {
		case <-set:
		case <-ctx.Done():
		case <-p.ended:
		}
	}()
	p.transport.Drive(either, nil)
	if data, ok := p.TryGet(key); ok {
		return data, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("key %q: no process has put it: %w", key, context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return nil, p.over
}
