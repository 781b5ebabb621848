// Package command scores how much a text reads like an order to its reader.
//
// The model is linear: a logistic regression over the words, word pairs and
// word classes of one sentence, hashed into 8-bit weights. A text scores as its
// strongest sentence does. The program in train fits the weights to public
// attack and benign texts and validates them with whole data sets left out;
// docs/detection.md has the curve.
//
// Guarantees: [Of] is a pure function of the text and the embedded weights. It
// computes with integers, so that every machine gets the same points. Its time
// is linear in the text. It gives no verdict: a false fact that orders nothing
// scores low, and an honest instruction scores high.
//
// The package imports the standard library alone. Begin at [Of].
package command
