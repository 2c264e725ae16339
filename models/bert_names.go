package models

import "encoding/json"

func bertFamily() family {
	keys := llamaKeys()
	keys.eps = "layer_norm_eps"
	return family{
		name: "bert", architecture: "BertForMaskedLM", classifier: "BertForSequenceClassification",
		tagger: "BertForTokenClassification", answerer: "BertForQuestionAnswering",
		base:      "bert.",
		embedding: "embeddings.word_embeddings.weight", keys: keys, eps: 1e-12, positions: 512,
		activation: "gelu",
		tied:       true, pad: 0, learnedPositions: true, encoder: true,
		read: readBERT, write: writeBERT, fill: fillBERT, check: checkGPT2, build: buildBERT,
		stored: storedNames{
			buffers: []string{".position_ids"},
			heads:   []string{"cls.predictions.decoder.weight"},
			ignored: secondBias("cls.predictions."),
		},
	}
}

// secondBias reports whether a name is that one of the two biases for masked tokens that the model does not
// use: the decoder's if the embedding table is tied, the other one if it is not.
func secondBias(at string) func(c Config, name string) bool {
	return func(c Config, name string) bool {
		if c.Tied {
			return name == at+"decoder.bias"
		}
		return name == at+"bias"
	}
}

func readBERT(r *reader, _ *family, c *Config) {
	c.Intermediate = r.size("intermediate_size")
	c.TokenTypes = r.count("type_vocab_size", 2)
	c.Dropout = Dropout{Residual: r.probabilityOr("hidden_dropout_prob", 0.1),
		Attention: r.probabilityOr("attention_probs_dropout_prob", 0.1)}
	c.Dropout.Classifier = r.probabilityOr("classifier_dropout", c.Dropout.Residual)
	r.oneOf("position_embedding_type", "absolute")
	r.oneOf("pooler_type", "first_token_transform")
	r.oneOf("directionality", "bidi")
	for _, key := range []string{"pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
		"pooler_size_per_head"} {
		r.take(key) // of the first BERT's files, whose pooler is the only kind
	}
	if r.bool("is_decoder", false) {
		r.fail("is_decoder", "not supported: got true, want false")
	}
	r.taskLabels(c)
}

// taskLabels reads the number of labels of a head that does not predict tokens.
func (r *reader) taskLabels(c *Config) {
	switch c.Task {
	case Classify, ClassifyTokens:
		c.Labels = r.labels()
	case Answer:
		c.Labels = r.labels()
		if c.Labels != 2 {
			r.fail("num_labels", "got %d, want 2: where an answer begins and ends", c.Labels)
		}
	}
}

// labels returns the number of classes: of those that have names, or num_labels.
func (r *reader) labels() int {
	var names map[string]json.RawMessage
	if json.Unmarshal(r.raw["id2label"], &names) == nil && len(names) > 0 {
		return len(names)
	}
	var n int
	if json.Unmarshal(r.raw["num_labels"], &n) == nil && n > 0 {
		return n
	}
	return 2
}

func fillBERT(_ *family, c *Config) {
	fill(&c.Intermediate, 4*c.Hidden)
	fill(&c.TokenTypes, 2)
	if c.Task != Predict {
		fill(&c.Labels, 2)
	}
}

func writeBERT(c Config, _ *family, m map[string]any) {
	m["type_vocab_size"] = c.TokenTypes
	m["hidden_dropout_prob"], m["attention_probs_dropout_prob"] = number(c.Dropout.Residual),
		number(c.Dropout.Attention)
	m["classifier_dropout"] = nil
	if c.Dropout.Classifier != c.Dropout.Residual {
		m["classifier_dropout"] = number(c.Dropout.Classifier)
	}
	if _, ok := m["id2label"]; !ok && c.Task != Predict {
		m["num_labels"] = c.Labels
	}
}
