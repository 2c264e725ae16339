package plan

import "github.com/galley-ml/galley/strategy"

// Floor returns a lower bound of the step time for a strategy's division of the devices, whatever its
// schedule, sharding, stages, recomputation and offloading: the computation and communication of its layers
// and ends for all micro-batches, spread over the pipeline ranks in proportion to their speed. A search
// prunes with it; it takes a microsecond.
func (e *Estimator) Floor(s strategy.Strategy) (float64, error) {
	s = s.Sized(e.w.Batch)
	speed := 0.0
	for device := range e.pricers {
		l, err := e.loads(&s, device, span{}, s.PP > 1) // some schedule hides what it can
		if err != nil {
			return 0, err
		}
		if len(e.pricers) > 1 || !e.cluster.Uniform() {
			l.exchange = [2]float64{} // it depends on the position of a rank
		}
		dense := e.w.Model.denseLayers()
		busy := l.embedding + l.head + float64(dense)*l.layer(0) + float64(e.w.Model.Layers-dense)*l.layer(1)
		g := &e.cluster.Groups[device]
		speed += float64(g.Hosts*g.Devices) / busy
	}
	// All replicas and all ranks of their pipelines work in parallel, each on tp·cp devices.
	return float64(e.w.Batch) / float64(s.MicroBatch) * float64(s.TP*s.CP) / speed, nil
}

// loads holds the time of a layer without experts and of one with experts for one micro-batch, computation
// and communication, and those of the embedding and the head.
type loads struct {
	compute, exchange [2]float64
	embedding, head   float64
}

func (l *loads) layer(kind int) float64 { return l.compute[kind] + l.exchange[kind] }

func (e *Estimator) loads(s *strategy.Strategy, device int, on span, pairs bool) (loads, error) {
	var l loads
	k := e.cal.Constants.compute()
	key := layerKey{tp: s.TP, cp: s.CP, ep: s.EP, etp: s.ETP, micro: s.MicroBatch, sp: s.Sequence,
		cpKind: s.Context,
		device: device, on: on, pairs: pairs}
	dense := e.w.Model.denseLayers()
	for i, n := range [2]int{dense, e.w.Model.Layers - dense} {
		if n == 0 {
			continue
		}
		key.moe = i == 1
		c, err := e.layer(key)
		if err != nil {
			return l, err
		}
		l.compute[i] = k*(c.compute.forward+c.compute.input+c.compute.weight) + e.cal.Constants.Layer
		l.exchange[i] = c.tpForward + c.tpBackward + c.cpForward + c.cpBackward + c.epForward + c.epBackward
	}
	first, last := work{embedding: true}, work{head: true}
	if err := e.addEnds(s, &first, device); err != nil {
		return l, err
	}
	if err := e.addEnds(s, &last, device); err != nil {
		return l, err
	}
	l.embedding, l.head = first.busy(), last.busy()
	return l, nil
}

// Kind returns the index of the host group whose devices set the pace of a pipeline rank.
func (e *Estimator) Kind(s strategy.Strategy, rank int) int {
	s = s.Sized(e.w.Batch)
	return e.slowest(&s, rank)
}

// Loads returns the time of each layer for one micro-batch on the devices of a pipeline rank, and those of
// the embedding and the head there, which a division into stages should balance.
func (e *Estimator) Loads(s strategy.Strategy,
	rank int) (layers []float64, embedding, head float64, err error) {
	s = s.Sized(e.w.Batch)
	l, err := e.loads(&s, e.slowest(&s, rank), e.spanOf(&s, rank), s.Class().Pairs)
	layers = make([]float64, e.w.Model.Layers)
	for i := range layers {
		layers[i] = l.layer(index(i >= e.w.Model.denseLayers()))
	}
	return layers, l.embedding, l.head, err
}
