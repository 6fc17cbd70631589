"""The agent: it thinks, evaluates, refines, scales at test time, and learns from it.

`reasonbank.agent.solve.solve` is the whole loop around any model.
"""
