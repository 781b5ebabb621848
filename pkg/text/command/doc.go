// Package command computes how much a text reads like an order to its reader.
//
// The model is linear: a logistic regression over the words, word pairs and word classes of one sentence, hashed into
// 8-bit weights. The score of a text is that of its highest-scoring sentence. The program in train fits the weights to
// public attack texts and harmless texts. To validate them, it fits without a group of data sets and scores the texts
// of that group. docs/detection.md shows the share of attacks found for each share of false positives.
//
// [Of] is a pure function of the text and the embedded weights. It uses integers only, so that every machine computes
// the same points. Its time is linear in the text. The score is not a verdict: a false fact that orders nothing scores
// low, and an honest instruction scores high.
//
// The package imports the standard library only. Start reading at [Of].
package command
