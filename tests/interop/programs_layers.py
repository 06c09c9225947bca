"""Programs that are layers of torch.nn: every kind once or more, in evaluation and, where it differs, in training."""
import torch
from torch import nn, randint, randn

from programs import layer, program

BATCH = torch.export.Dim("batch", min=1, max=64)

# ---- products and convolutions ----
layer("linear", lambda: nn.Linear(8, 5), lambda: (randn(3, 8),))
layer("linear_no_bias_3d", lambda: nn.Linear(8, 5, bias=False), lambda: (randn(2, 3, 8),))
layer("bilinear", lambda: nn.Bilinear(4, 5, 3), lambda: (randn(6, 4), randn(6, 5)))
layer("conv1d", lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), lambda: (randn(2, 4, 11),))
layer("conv2d", lambda: nn.Conv2d(3, 8, 3, padding=1), lambda: (randn(2, 3, 9, 10),))
layer("conv2d_grouped_dilated", lambda: nn.Conv2d(6, 12, 3, groups=3, dilation=2, stride=(1, 2)),
      lambda: (randn(2, 6, 12, 13),))
layer("conv2d_depthwise_same", lambda: nn.Conv2d(5, 5, 4, groups=5, padding="same"), lambda: (randn(1, 5, 8, 8),))
layer("conv2d_padding_modes", lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=2, padding_mode="reflect"),
                                                    nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
                                                    nn.Conv2d(4, 2, 3, padding=1, padding_mode="replicate")),
      lambda: (randn(1, 3, 7, 8),))
layer("conv3d", lambda: nn.Conv3d(2, 4, (2, 3, 3), padding=(0, 1, 1)), lambda: (randn(1, 2, 5, 6, 7),))
layer("conv_transpose1d", lambda: nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1), lambda: (randn(2, 4, 7),))
layer("conv_transpose2d", lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2),
      lambda: (randn(2, 4, 5, 6),))
layer("conv_transpose3d", lambda: nn.ConvTranspose3d(2, 3, 2, stride=2), lambda: (randn(1, 2, 3, 4, 3),))
layer("fold_unfold", lambda: nn.Sequential(nn.Unfold(3, padding=1), nn.ReLU(), nn.Fold((6, 7), 3, padding=1)),
      lambda: (randn(2, 3, 6, 7),))

# ---- normalisation ----
layer("batch_norm1d_eval", lambda: nn.BatchNorm1d(6), lambda: (randn(5, 6),))
layer("batch_norm1d_train", lambda: nn.BatchNorm1d(6), lambda: (randn(5, 6),),
      more=lambda: [(randn(5, 6),), (randn(5, 6),)], train=True)
layer("batch_norm2d_eval", lambda: nn.BatchNorm2d(4), lambda: (randn(2, 4, 5, 6),))
layer("batch_norm2d_train", lambda: nn.BatchNorm2d(4, momentum=0.3), lambda: (randn(3, 4, 5, 6),),
      more=lambda: [(randn(3, 4, 5, 6),), (randn(3, 4, 5, 6),)], train=True)
layer("batch_norm3d_train", lambda: nn.BatchNorm3d(3, affine=False), lambda: (randn(2, 3, 2, 3, 4),),
      more=lambda: [(randn(2, 3, 2, 3, 4),)], train=True)
layer("batch_norm_no_stats", lambda: nn.BatchNorm2d(4, track_running_stats=False), lambda: (randn(3, 4, 5, 6),))
layer("conv_bn_relu_train", lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(inplace=True)),
      lambda: (randn(2, 3, 7, 7),),
      more=lambda: [(randn(2, 3, 7, 7),)], train=True)
layer("layer_norm", lambda: nn.LayerNorm([4, 6]), lambda: (randn(3, 4, 6),))
layer("group_norm", lambda: nn.GroupNorm(3, 6), lambda: (randn(2, 6, 5, 4),))
layer("instance_norm", lambda: nn.InstanceNorm2d(4, affine=True), lambda: (randn(2, 4, 5, 6),))
layer("instance_norm_stats_train", lambda: nn.InstanceNorm1d(4, track_running_stats=True), lambda: (randn(2, 4, 9),),
      more=lambda: [(randn(2, 4, 9),)], train=True)
layer("rms_norm", lambda: nn.RMSNorm(10), lambda: (randn(3, 10),))
layer("local_response_norm", lambda: nn.LocalResponseNorm(3), lambda: (randn(2, 7, 4, 5),))
layer("weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 4)), lambda: (randn(3, 6),))
layer("spectral_norm_eval", lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)), lambda: (randn(3, 6),))

# ---- activations ----
layer("activations_smooth", lambda: nn.Sequential(nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(), nn.Mish(),
                                                  nn.Softplus(), nn.LogSigmoid(), nn.Tanh(), nn.Softsign()),
      lambda: (randn(4, 50) * 4,))
layer("activations_piecewise", lambda: nn.Sequential(nn.LeakyReLU(0.1), nn.PReLU(5), nn.ReLU6(),
        nn.Hardtanh(-0.5, 2.0), nn.Hardswish(), nn.Hardsigmoid(), nn.Threshold(0.3, 0.1),
                                                     nn.Hardshrink(0.2), nn.Softshrink(0.1)),
      lambda: (randn(4, 5, 9) * 4,))
layer("activations_exp", lambda: nn.Sequential(nn.ELU(1.5), nn.CELU(0.7), nn.SELU(), nn.Tanhshrink(), nn.Sigmoid()),
      lambda: (randn(4, 50) * 3,))
layer("activations_inplace", lambda: nn.Sequential(nn.Linear(6, 6), nn.ReLU(True), nn.SiLU(True), nn.ELU(inplace=True),
                                                   nn.Hardtanh(inplace=True), nn.LeakyReLU(inplace=True)),
      lambda: (randn(4, 6),))
layer("softmaxes", lambda: nn.Sequential(nn.Softmax(-1), nn.LogSoftmax(1), nn.Softmin(0), nn.Softmax2d()),
      lambda: (randn(2, 3, 4, 5),))
layer("glu", lambda: nn.Sequential(nn.Linear(6, 8), nn.GLU()), lambda: (randn(4, 6),))
layer("rrelu_eval", lambda: nn.RReLU(), lambda: (randn(4, 6),))

# ---- pooling ----
layer("max_pool1d", lambda: nn.MaxPool1d(3, stride=2, padding=1), lambda: (randn(2, 4, 11),))
layer("max_pool2d", lambda: nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True), lambda: (randn(2, 4, 9, 10),))
layer("max_pool3d", lambda: nn.MaxPool3d(2), lambda: (randn(1, 3, 4, 6, 6),))
layer("max_pool2d_indices", lambda: nn.MaxPool2d(2, return_indices=True), lambda: (randn(2, 3, 6, 6),))
layer("avg_pool1d", lambda: nn.AvgPool1d(3, stride=2, padding=1), lambda: (randn(2, 4, 11),))
layer("avg_pool2d", lambda: nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
      lambda: (randn(2, 4, 9, 10),))
layer("avg_pool3d", lambda: nn.AvgPool3d(2), lambda: (randn(1, 3, 4, 6, 6),))
layer("lp_pool", lambda: nn.LPPool2d(2, 3), lambda: (randn(2, 3, 9, 9),))
layer("adaptive_avg_pool1d", lambda: nn.AdaptiveAvgPool1d(4), lambda: (randn(2, 3, 11),))
layer("adaptive_avg_pool2d", lambda: nn.AdaptiveAvgPool2d((3, None)), lambda: (randn(2, 3, 7, 8),))
layer("adaptive_avg_pool3d", lambda: nn.AdaptiveAvgPool3d(2), lambda: (randn(1, 3, 4, 5, 6),))
layer("adaptive_max_pool1d", lambda: nn.AdaptiveMaxPool1d(4), lambda: (randn(2, 3, 11),))
layer("adaptive_max_pool2d", lambda: nn.AdaptiveMaxPool2d(3, return_indices=True), lambda: (randn(2, 3, 7, 8),))
layer("adaptive_max_pool3d", lambda: nn.AdaptiveMaxPool3d(2), lambda: (randn(1, 3, 4, 5, 6),))


@program(lambda: (randn(2, 3, 8, 8),), lambda: dict(pool=nn.MaxPool2d(2, return_indices=True),
                                                    unpool=nn.MaxUnpool2d(2)))
def max_unpool2d(self, x):
    return self.unpool(*self.pool(x))


# ---- padding, resampling, shuffling ----
layer("pads", lambda: nn.Sequential(nn.ZeroPad2d((1, 2, 0, 3)), nn.ReflectionPad2d(2),
                                    nn.ReplicationPad2d((0, 1, 2, 0)), nn.ConstantPad2d(-1, 0.0), nn.CircularPad2d(1)),
      lambda: (randn(1, 2, 6, 7),))
layer("pads_1d_3d", lambda: nn.Sequential(nn.ReplicationPad3d(1), nn.ReflectionPad3d(1),
                                          nn.ConstantPad3d((0, 1, 1, 0, 2, 0), 0.5)), lambda: (randn(1, 2, 3, 4, 5),))
layer("upsample_nearest", lambda: nn.Upsample(scale_factor=2.5, mode="nearest"), lambda: (randn(1, 2, 5, 6),))
layer("upsample_bilinear", lambda: nn.Upsample(size=(9, 7), mode="bilinear", align_corners=True),
      lambda: (randn(1, 2, 5, 6),))
layer("upsample_bicubic", lambda: nn.Upsample(scale_factor=2, mode="bicubic"), lambda: (randn(1, 2, 5, 6),))
layer("upsample_linear1d", lambda: nn.Upsample(scale_factor=3, mode="linear"), lambda: (randn(2, 3, 7),))
layer("upsample_trilinear", lambda: nn.Upsample(scale_factor=2, mode="trilinear"), lambda: (randn(1, 2, 3, 4, 5),))
layer("pixel_shuffle", lambda: nn.Sequential(nn.PixelShuffle(2), nn.PixelUnshuffle(4), nn.ChannelShuffle(4)),
      lambda: (randn(2, 8, 6, 8),))
layer("flatten_unflatten", lambda: nn.Sequential(nn.Flatten(1), nn.Linear(12, 6), nn.Unflatten(1, (2, 3)),
                                                 nn.Identity()), lambda: (randn(4, 3, 4),))

# ---- embeddings ----
layer("embedding", lambda: nn.Embedding(20, 6, padding_idx=0), lambda: (randint(0, 20, (3, 5)),))
layer("embedding_renorm", lambda: nn.Embedding(20, 6, max_norm=1.0), lambda: (randint(0, 20, (3, 5)),),
      more=lambda: [(randint(0, 20, (3, 5)),)])
layer("embedding_bag", lambda: nn.EmbeddingBag(20, 6, mode="sum"), lambda: (randint(0, 20, (3, 5)),))


@program(lambda: (randint(0, 20, (9,)), torch.tensor([0, 4, 4, 7])),
         lambda: dict(bag=nn.EmbeddingBag(20, 6, mode="max")))
def embedding_bag_offsets(self, tokens, offsets):
    return self.bag(tokens, offsets)


@program(lambda: (randint(0, 20, (3, 5)), torch.rand(3, 5)), lambda: dict(bag=nn.EmbeddingBag(20, 6, mode="sum")))
def embedding_bag_weighted(self, tokens, weights):
    return self.bag(tokens, per_sample_weights=weights)


# ---- recurrent ----
layer("rnn_tanh", lambda: nn.RNN(5, 6, 2), lambda: (randn(7, 3, 5),))
layer("rnn_relu_bidirectional", lambda: nn.RNN(5, 6, nonlinearity="relu", bidirectional=True, batch_first=True),
      lambda: (randn(3, 7, 5), randn(2, 3, 6)))
layer("lstm_two_layers", lambda: nn.LSTM(5, 6, 2, batch_first=True), lambda: (randn(3, 7, 5),))
layer("lstm_bidirectional_projection", lambda: nn.LSTM(5, 6, 2, bidirectional=True, proj_size=4),
      lambda: (randn(7, 3, 5),))
layer("lstm_states", lambda: nn.LSTM(5, 6), lambda: (randn(7, 3, 5), (randn(1, 3, 6), randn(1, 3, 6))))
layer("gru_bidirectional", lambda: nn.GRU(5, 6, 2, bidirectional=True, batch_first=True), lambda: (randn(3, 7, 5),))
layer("gru_dynamic_batch", lambda: nn.GRU(5, 6, batch_first=True), lambda: (randn(3, 7, 5),),
      more=lambda: [(randn(5, 7, 5),)], dynamic=({0: BATCH},))
layer("lstm_dropout_train", lambda: nn.LSTM(5, 6, 2, dropout=0.4), lambda: (randn(7, 3, 5),), train=True, seed=True)


@program(lambda: (randn(3, 5), randn(3, 6)), lambda: dict(rnn=nn.RNNCell(5, 6), lstm=nn.LSTMCell(6, 6),
                                                          gru=nn.GRUCell(6, 6)))
def rnn_cells(self, x, h):
    h = self.rnn(x, h)
    h, c = self.lstm(h, (h, h * 0.5))
    return self.gru(h, c), c


# ---- attention ----
@program(lambda: (randn(2, 5, 12), randn(2, 7, 12)),
         lambda: dict(attention=nn.MultiheadAttention(12, 3, batch_first=True)))
def multihead_cross(self, query, memory):
    return self.attention(query, memory, memory)


@program(lambda: (randn(5, 2, 12), torch.tensor([[0, 0, 0, 0, 1], [0, 0, 1, 1, 1]]).bool()),
         lambda: dict(attention=nn.MultiheadAttention(12, 3)))
def multihead_masked(self, x, padding):
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    return self.attention(x, x, x, key_padding_mask=padding, attn_mask=causal != 0, need_weights=False)[0]


@program(lambda: (randn(2, 4, 6, 8), randn(2, 4, 6, 8), randn(2, 4, 6, 8)))
def sdpa_causal(self, q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)


@program(lambda: (randn(2, 8, 5, 4), randn(2, 2, 7, 4), randn(2, 2, 7, 4)))
def sdpa_grouped(self, q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@program(lambda: (randn(2, 3, 5, 8), randn(2, 3, 7, 8), randn(2, 3, 7, 8), randn(2, 1, 5, 7), torch.rand(5, 7) > 0.3))
def sdpa_masks(self, q, k, v, bias, keep):
    f = nn.functional.scaled_dot_product_attention
    return f(q, k, v, attn_mask=bias), f(q, k, v, attn_mask=keep | (torch.arange(7) == 0))


layer("transformer_encoder", lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(12, 3, 20, batch_first=True), 2),
      lambda: (randn(2, 5, 12),))
layer("transformer_encoder_train", lambda: nn.TransformerEncoderLayer(12, 3, 20, dropout=0.2, norm_first=True,
                                                                      activation="gelu"), lambda: (randn(5, 2, 12),),
      train=True, seed=True)
layer("transformer_decoder", lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(12, 3, 20, batch_first=True), 1),
      lambda: (randn(2, 4, 12), randn(2, 6, 12)),
      kwargs=lambda: dict(tgt_mask=nn.Transformer.generate_square_subsequent_mask(4), tgt_is_causal=True))
layer("transformer", lambda: nn.Transformer(12, 3, 1, 1, 16, batch_first=True),
      lambda: (randn(2, 5, 12), randn(2, 4, 12)))

# ---- dropout ----
layer("dropout_train", lambda: nn.Sequential(nn.Linear(8, 30), nn.Dropout(0.4), nn.ReLU(), nn.Dropout(0.1)),
      lambda: (randn(5, 8),), more=lambda: [(randn(5, 8),)],
      train=True, seed=True)
layer("dropout_eval", lambda: nn.Sequential(nn.Linear(8, 30), nn.Dropout(0.4)), lambda: (randn(5, 8),))
layer("dropout2d_train", lambda: nn.Sequential(nn.Dropout2d(0.5), nn.AlphaDropout(0.3), nn.FeatureAlphaDropout(0.3)),
      lambda: (randn(3, 8, 4, 4),), train=True, seed=True)

# ---- losses ----
layer("cross_entropy", lambda: nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=2),
      lambda: (randn(6, 5), torch.tensor([0, 1, 2, 3, 4, 1])), constant=True)
layer("losses_none", lambda: nn.CrossEntropyLoss(weight=torch.rand(5), reduction="none"),
      lambda: (randn(6, 5), randint(0, 5, (6,))))


@program(lambda: (randn(6, 5), randn(6, 5), torch.rand(6, 5)))
def losses(self, x, y, p):
    f = nn.functional
    return torch.stack([f.mse_loss(x, y), f.l1_loss(x, y), f.smooth_l1_loss(x, y), f.huber_loss(x, y, delta=0.7),
                        f.binary_cross_entropy_with_logits(x, p),
                        f.binary_cross_entropy(torch.sigmoid(x), p), f.kl_div(f.log_softmax(x, -1), p),
                        f.soft_margin_loss(x, y.sign()), f.poisson_nll_loss(x, p),
                        f.hinge_embedding_loss(x, y.sign())])


@program(lambda: (randn(6, 5), randn(6, 5), randn(6, 5), randint(0, 5, (6,))))
def losses_ranking(self, x, y, z, label):
    f = nn.functional
    return torch.stack([f.triplet_margin_loss(x, y, z), f.cosine_embedding_loss(x, y, torch.ones(6)),
                        f.margin_ranking_loss(x[:, 0], y[:, 0], torch.ones(6)),
                        f.multi_margin_loss(x, label), f.multilabel_soft_margin_loss(x, (y > 0).float()),
                        f.nll_loss(f.log_softmax(x, 1), label)])


# ---- distances ----
@program(lambda: (randn(5, 6), randn(5, 6), randn(4, 6)))
def distances(self, x, y, z):
    f = nn.functional
    return f.cosine_similarity(x, y), f.pairwise_distance(x, y), torch.cdist(x, z), f.normalize(x, dim=1), f.pdist(x)
