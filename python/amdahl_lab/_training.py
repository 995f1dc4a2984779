"""What a factory returns."""


class Training:
    """A model and how to train it.

    model: a torch.nn.Module on the factory's device.
    loss: function of (model, batch) that returns a scalar tensor; it calls the model it is given, which may be wrapped.
    optimizer: function of the parameters that returns an optimizer, as `lambda p: torch.optim.SGD(p, lr=0.1)`.
    batches: iterable of batches on the device, each with this rank's rows; begun again when it ends, if it can be.
    """

    def __init__(self, model, loss, optimizer, batches):
        self.model, self.loss, self.optimizer, self.batches = model, loss, optimizer, batches
