"""Parts for other programs: ACE, ground truth, experience, the engine, the gated step, lessons.

Their public names are in `reflector`, `reflector.experience`, `reflector.engine`,
`reflector.gated` and `reflector.ground_truth`.
"""
