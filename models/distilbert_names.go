package models

func distilBERTFamily() family {
	return family{
		name: "distilbert", architecture: "DistilBertForMaskedLM",
		classifier: "DistilBertForSequenceClassification", tagger: "DistilBertForTokenClassification",
		answerer: "DistilBertForQuestionAnswering",
		base:     "distilbert.", embedding: "embeddings.word_embeddings.weight",
		keys: keys{hidden: "dim", intermediate: "hidden_dim", layers: "n_layers", heads: "n_heads",
			positions: "max_position_embeddings", activation: "activation"},
		eps: 1e-12, positions: 512, activation: "gelu", tied: true, pad: 0, learnedPositions: true, encoder: true,
		read: readDistilBERT, write: writeDistilBERT, fill: fillDistilBERT, check: checkGPT2,
		build:  buildDistilBERT,
		stored: storedNames{buffers: []string{".position_ids"}, heads: []string{"vocab_projector.weight"}},
	}
}

func readDistilBERT(r *reader, _ *family, c *Config) {
	c.Intermediate = r.count("hidden_dim", 4*768)
	c.SinePositions = r.bool("sinusoidal_pos_embds", false)
	c.Dropout = Dropout{Residual: r.probabilityOr("dropout", 0.1),
		Attention: r.probabilityOr("attention_dropout", 0.1)}
	answer, class := r.probabilityOr("qa_dropout", 0.1), r.probabilityOr("seq_classif_dropout", 0.2)
	switch c.Task {
	case Answer:
		c.Dropout.Classifier = answer
	case Classify:
		c.Dropout.Classifier = class
	case ClassifyTokens:
		c.Dropout.Classifier = c.Dropout.Residual
	}
	r.taskLabels(c)
}

func fillDistilBERT(_ *family, c *Config) {
	fill(&c.Intermediate, 4*c.Hidden)
	if c.Task != Predict {
		fill(&c.Labels, 2)
	}
}

func writeDistilBERT(c Config, _ *family, m map[string]any) {
	m["sinusoidal_pos_embds"] = c.SinePositions
	m["dropout"], m["attention_dropout"] = number(c.Dropout.Residual), number(c.Dropout.Attention)
	switch c.Task {
	case Answer:
		m["qa_dropout"] = number(c.Dropout.Classifier)
	case Classify:
		m["seq_classif_dropout"] = number(c.Dropout.Classifier)
	}
	if _, ok := m["id2label"]; !ok && c.Task != Predict {
		m["num_labels"] = c.Labels
	}
}
