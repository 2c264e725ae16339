package plan

// Floor is the seconds below which no step of a strategy's division of the devices is, whatever its schedule, sharding, stages and
// relief of memory: what its layers and ends compute and exchange for all micro-batches, spread over the ranks of the pipeline so
// that each is as busy as it is fast. It is what a search prunes by, and takes a microsecond.
func (e *Estimator) Floor(s Strategy) (float64, error) {
	s = s.normal()
	speed := 0.0
	for device := range e.pricers {
		busy, err := e.least(&s, device)
		if err != nil {
			return 0, err
		}
		g := &e.cluster.Groups[device]
		speed += float64(g.Hosts*g.Devices) / busy
	}
	// All replicas and all ranks of their pipelines work side by side, each on tp·cp devices.
	return float64(e.w.Batch) / float64(s.Micro) * float64(s.TP*s.CP) / speed, nil
}

// least is what all layers and ends take for one micro-batch if one type of device did it all.
func (e *Estimator) least(s *Strategy, device int) (float64, error) {
	layers, embedding, head, err := e.loads(s, device)
	if err != nil {
		return 0, err
	}
	dense := e.w.Model.denseLayers()
	return embedding + head + float64(dense)*layers[0] + float64(e.w.Model.Layers-dense)*layers[1], nil
}

// loads is what one layer without and with experts, the embedding and the head take for one micro-batch.
func (e *Estimator) loads(s *Strategy, device int) (layers [2]float64, embedding, head float64, err error) {
	k := e.cal.Constants.compute()
	key := layerKey{tp: s.TP, cp: s.CP, ep: s.EP, etp: s.ETP, micro: s.Micro, sp: s.SP, cpKind: s.CPKind, device: device}
	dense := e.w.Model.denseLayers()
	for i, n := range [2]int{dense, e.w.Model.Layers - dense} {
		if n == 0 {
			continue
		}
		key.moe = i == 1
		c, err := e.layer(key)
		if err != nil {
			return layers, 0, 0, err
		}
		layers[i] = k*(c.compute.forward+c.compute.input+c.compute.weight) + c.tpForward + c.tpBackward + c.cpForward + c.cpBackward + c.epForward + c.epBackward
	}
	first, last := work{embedding: true}, work{head: true}
	if err := e.addEnds(s, &first, device); err != nil {
		return layers, 0, 0, err
	}
	if err := e.addEnds(s, &last, device); err != nil {
		return layers, 0, 0, err
	}
	return layers, first.busy(), last.busy(), nil
}

// Kind is the number of the group of hosts whose devices set the pace of a pipeline rank.
func (e *Estimator) Kind(s Strategy, rank int) int {
	s = s.normal()
	return e.slowest(&s, rank)
}

// Loads is what each layer of the model takes for one micro-batch on the devices of a pipeline rank, and what the embedding and the
// head take there: what a cut into stages should balance.
func (e *Estimator) Loads(s Strategy, rank int) (layers []float64, embedding, head float64, err error) {
	s = s.normal()
	kinds, embedding, head, err := e.loads(&s, e.slowest(&s, rank))
	layers = make([]float64, e.w.Model.Layers)
	for i := range layers {
		layers[i] = kinds[0]
		if i >= e.w.Model.denseLayers() {
			layers[i] = kinds[1]
		}
	}
	return layers, embedding, head, err
}

// RankOf is the pipeline rank that holds a chunk of a strategy.
func (s Strategy) RankOf(chunk int) int {
	s = s.normal()
	return rankOf(&s, chunk)
}
