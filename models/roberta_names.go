package models

import "fmt"

func robertaFamily() family {
	f := bertFamily()
	f.name, f.architecture, f.classifier = "roberta", "RobertaForMaskedLM", "RobertaForSequenceClassification"
	f.tagger, f.answerer = "RobertaForTokenClassification", "RobertaForQuestionAnswering"
	f.base, f.pad, f.build, f.check = "roberta.", 1, buildRoBERTa, checkRoBERTa
	f.countedPositions = true
	f.stored = storedNames{buffers: []string{".position_ids"}, heads: []string{"lm_head.decoder.weight"},
		ignored: secondBias("lm_head.")}
	return f
}

func checkRoBERTa(c Config) error {
	pad, ok := c.padToken()
	if !ok || pad+1 >= c.Positions {
		return fmt.Errorf("pad_token_id, max_position_embeddings %d: want padding within both: "+
			"positions count from behind it", c.Positions)
	}
	return checkGPT2(c)
}
