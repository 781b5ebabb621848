// Package lexical is an inverted index with BM25 ranking that is kept in a
// key-value state: a part of a fold, written by it and rebuilt with it.
//
// Guaranteed: the same documents added in the same order give the same keys,
// and the same answers in the same order, on every machine. All arithmetic is in
// integers. There is nothing outside of the state, so that what a crash takes
// away of the state it takes away of the index too.
//
// Adding a document costs a few writes, whatever the index holds; a search reads
// the postings of its terms, at most MaxPostings of each. Documents are never
// changed and never removed: whoever asks looks a hit up and decides.
//
// The ranking is BM25 (Robertson and Zaragoza, "The Probabilistic Relevance
// Framework: BM25 and Beyond", 2009) with k1 = 1.2 and b = 0.75, two things
// apart. The average length of documents is a constant, so that a posting's
// weight never changes and fits into seven bits (as impacts do, Anh and Moffat
// 2002). And of a term that more than MaxPostings documents have, the latest
// count.
//
// Postings are kept in runs, as in the logarithmic method (Bentley and Saxe,
// 1980): documents are gathered into segments of 512, a segment's postings are
// split into 512 buckets by term, and eight runs of a bucket are merged to one,
// on four levels. One bucket is looked after with each document that is added,
// so that no document pays for a merge of the whole index. In large runs a term
// that many documents have gets a key of its own, so that who looks for it need
// not read its bucket.
//
// It may import pkg/text. Begin reading with lexical.go, then search.go; run.go keeps the postings.
package lexical
